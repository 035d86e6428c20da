/** A network of its own for programs whose ports are fixed. */
import { spawnSync } from 'node:child_process'

/** Root may make a network namespace; other users need one of users as well. */
export const namespace = process.getuid?.() === 0 ? ['-n'] : ['-rn']
export const namespaceAbsent =
  spawnSync('unshare', [...namespace, 'ip', 'link', 'set', 'lo', 'up']).status === 0
    ? false
    : 'network namespaces (unshare -n, ip) not found'

/** Arguments of `unshare` that run a program with a loopback interface that nobody else has. */
export const ownNetwork = (...command: string[]): string[] => [
  ...namespace,
  ...['sh', '-c', 'ip link set lo up && exec "$@"', 'sh'],
  ...command,
]
