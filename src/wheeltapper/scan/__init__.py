"""From text to findings: kernel records, kernel logs as files, and the logs of jobs."""

from wheeltapper.scan.kernel import scan_kernel, scan_kernel_log
from wheeltapper.scan.log import scan_file, scan_log

__all__ = ["scan_file", "scan_kernel", "scan_kernel_log", "scan_log"]
