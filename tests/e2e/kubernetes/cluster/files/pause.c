/* What holds a pod's namespaces: it waits until it is told to go. */
#include <signal.h>
#include <unistd.h>

static void leave(int number)
{
    (void)number;
    _exit(0);
}

int main(void)
{
    signal(SIGTERM, leave);
    signal(SIGINT, leave);
    for (;;)
        pause();
}
