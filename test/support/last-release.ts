/**
 * The last release, from the history of the checkout. At a release: `last` becomes its commit, together with
 * test/admin/store/fixtures/schema-of-last-release.json.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { newFolder } from './process.ts'

/** Nothing is released yet: a state of main before the ledger had partitions. */
const last = 'f5373d3bed530cb1658ec2b323a1d870e9e9423e'
const root = fileURLToPath(new URL('../..', import.meta.url))

/** What `t.test` takes to skip by name where the history is cut. */
export const lastReleaseAbsent =
  spawnSync('git', ['cat-file', '-e', `${last}^{commit}`], { cwd: root }).status === 0
    ? (false as const)
    : `commit ${last.slice(0, 7)} not found (git fetch --unshallow)`

/** Unpacks the last release, or what of it is below `path`, into a folder of its own. */
export function unpackLastRelease(path = '.'): string {
  const folder = join(newFolder(), 'last')
  mkdirSync(folder)
  const archive = `git archive ${last} ${path} | tar -x -C ${folder}`
  const unpacked = spawnSync('sh', ['-c', archive], { cwd: root })
  if (unpacked.status !== 0) throw new Error(String(unpacked.stderr))
  return folder
}
