/** Google's own Protocol Buffers and gRPC in a Python process: `PROTOBUF_PYTHON="$(.ci/protobuf)"`, or the cache that it fills. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
export const protobufPython =
  process.env['PROTOBUF_PYTHON'] ?? join(cache, 'bidweir', 'protobuf-venv', 'bin', 'python')

export const protobufAbsent = existsSync(protobufPython) ? false : 'protobuf for Python not found'

const program = join(import.meta.dirname, 'google-protobuf.py')
const folder = join(import.meta.dirname, '../../opd/agent/proto')

type Job =
  /** A JSON document in the schema of the project; null: it cannot be written in it as it is. */
  | ['encode', message: 'BidRequest' | 'BidResponse', document: string]
  /** Random bid responses. */
  | ['random', seed: number, count: number]
  /** Random bid responses as other writers may spell them. `groups`: some have groups. */
  | ['respelled', seed: number, count: number, groups: boolean]
  /**
   * What is wrong with a response that was rewritten with half the prices; null: nothing. `values`: of the macros; null: the
   * response was malformed for the rewriter.
   */
  | ['fault', before: string, after: string, values: Record<string, string> | null]

/** Does jobs in one process; the result of each. Messages are hexadecimal. */
export function googleProtobuf(jobs: readonly Job[]): unknown[] {
  const output = execFileSync(protobufPython, [program, folder], {
    input: JSON.stringify(jobs),
    maxBuffer: 1024 * 1024 * 1024,
  })
  return JSON.parse(String(output)) as unknown[]
}
