/**
 * Namespaces for a node with real pods: network, mounts and processes of the machine stay as they are, and everything ends with
 * the test.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { endWithTest } from '../../support/children.ts'
import { postgresAbsent } from '../../support/postgres.ts'
import { redisAbsent } from '../../support/redis.ts'
import { needsHelm } from '../helm.ts'
import { makeCgroup, removeCgroup } from './cgroup.ts'
import { kubernetesAbsent } from './kubernetes.ts'

const namespaces = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
const programs = ['containerd', 'runc', 'conntrack', '/usr/sbin/xtables-legacy-multi', 'ip']

function obstacle(): string | false {
  const archive = join(process.env['BIDWEIR_IMAGES'] ?? '/nowhere', 'bidweir.tar')
  if (!existsSync(archive))
    return 'image of bidweir not found (BIDWEIR_IMAGES, .ci/image builds it)'
  for (const name of programs)
    if (spawnSync('sh', ['-c', `command -v ${name}`]).status !== 0) return `${name} not found`
  const mounts = 'cd $(mktemp -d) && mkdir a b c d && mount -t tmpfs tmpfs a && mkdir a/u a/w'
  const overlay = 'mount -t overlay overlay -o lowerdir=b,upperdir=a/u,workdir=a/w d'
  const bridge = 'ip link add b0 type bridge && ip link add v0 type veth peer name v1'
  const probe = [
    'sh',
    '-c',
    `${mounts} && ${overlay} && ${bridge} && xtables-legacy-multi iptables -t nat -L`,
  ]
  if (spawnSync('unshare', [...namespaces, ...probe]).status !== 0)
    return 'namespaces, overlay, bridge or iptables refused (unshare)'
  return false
}

/** What `t.test` takes as `skip`. */
export const nodeAbsent =
  needsHelm.skip || kubernetesAbsent || postgresAbsent || redisAbsent || obstacle()

/** Runs a file of tests in the namespaces, and passes if they pass. */
export async function runOnNode(t: Test, file: URL): Promise<void> {
  const cgroup = makeCgroup(`bidweir-${process.pid}`)
  t.teardown(() => removeCgroup(cgroup))
  const inside = fileURLToPath(file)
  // A shell is process 1: it waits for whoever loses his parent.
  const shell = ['sh', '-c', '"$@"; exit $?', 'sh']
  const env = { ...process.env, BIDWEIR_CGROUP: cgroup, TAP_TIMEOUT: '1500' }
  const command = [...namespaces, ...shell, process.execPath, inside]
  const child = endWithTest(
    spawn('unshare', command, { env, stdio: ['ignore', 'pipe', 'inherit'] }),
  )
  const ended = once(child, 'close')
  const said = await text(child.stdout)
  const [code] = await ended
  for (const line of said.match(/^ {0,4}ok .*$/gm) ?? []) t.comment(line)
  if (code !== 0) t.comment(said)
  t.equal(code, 0, 'every test of a release passes')
}
