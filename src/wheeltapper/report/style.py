"""The page's style sheet. The colours of the six families are told apart also by people who see red and green alike."""

from __future__ import annotations

STYLE = """
:root{--bg:#f6f7f9;--card:#fff;--ink:#1b2430;--soft:#5d6b7a;--line:#dfe4ea;--hardware:#c0392b;--network:#2471a3;
--resource:#d68910;--software:#7d5ba6;--scheduler:#7f8c8d;--unknown:#2c3e50;--done:#2e8b6f;--accent:#2471a3}
@media (prefers-color-scheme:dark){:root{--bg:#12171d;--card:#1b222b;--ink:#e7ecf1;--soft:#98a6b5;--line:#303b47;
--hardware:#e5695d;--network:#5ba4d6;--resource:#e6ad45;--software:#ab8cd1;--scheduler:#95a5a6;--unknown:#c3cfda;
--done:#54b596;--accent:#5ba4d6}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1060px;margin:0 auto;padding:28px 24px 60px}
header h1{margin:0;font-size:28px;letter-spacing:-.01em}
header p{margin:2px 0 0;color:var(--soft)}
.kicker{text-transform:uppercase;letter-spacing:.12em;font-size:12px;font-weight:600;color:var(--accent)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:14px;margin:22px 0}
.tile,section{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:14px 16px}.tile p{margin:0}.tile .label{color:var(--soft);font-size:13px}
.tile .value{font-size:26px;font-weight:650;letter-spacing:-.02em}
.note{color:var(--soft);font-size:13px}
section{padding:18px 22px 22px;margin-top:18px}
h2{margin:0 0 4px;font-size:19px}h3{margin:18px 0 6px;font-size:15px;color:var(--soft)}
section>.note{margin:0 0 12px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th{text-align:left;color:var(--soft);font-weight:500;border-bottom:1px solid var(--line);padding:5px 12px 5px 0}
td{border-bottom:1px solid var(--line);padding:6px 12px 6px 0;vertical-align:top}
.num{white-space:nowrap;font-variant-numeric:tabular-nums}.long{overflow-wrap:anywhere}
tbody tr:last-child td{border-bottom:0}
.chip{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:9px}
.bar{display:inline-block;width:80px;height:8px;border-radius:4px;background:var(--line);margin-right:9px}
.bar span{display:block;height:100%;border-radius:4px;background:var(--accent);min-width:2px}
svg{display:block;width:100%;height:auto;font-size:12.5px}
svg text{fill:var(--ink)}svg .axis{fill:var(--soft)}svg .grid{stroke:var(--line)}
svg .limits{stroke:var(--accent);stroke-width:3;stroke-linecap:round;opacity:.55}svg .open{stroke-dasharray:2 7}
svg .dot{fill:var(--accent)}svg .cell{fill:var(--line);fill-opacity:.5}svg .hot{fill:var(--hardware)}
.f-hardware{fill:var(--hardware);background:var(--hardware)}.f-network{fill:var(--network);background:var(--network)}
.f-resource{fill:var(--resource);background:var(--resource)}.f-software{fill:var(--software);background:var(--software)}
.f-scheduler{fill:var(--scheduler);background:var(--scheduler)}.f-unknown{fill:var(--unknown);background:var(--unknown)}
.f-done{fill:var(--done);background:var(--done)}
@media print{body{background:#fff}section,.tile{break-inside:avoid}}
"""
