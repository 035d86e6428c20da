/** The decision log on a real disk: every field, rotation, torn lines, a full disk. */
import { appendFileSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { DecisionEntry } from '../../../opd/ports.ts'
import { createDecisionLog } from '../../../opd/state/decision-log.ts'
import { newFolder } from '../../support/process.ts'

const errors: object[] = []
const log = { info() {}, warn() {}, error: (fields: object) => void errors.push(fields) }
const mebi = 1024 * 1024

const entry = (id: string): DecisionEntry => ({
  time: 1_800_000_000_000,
  id,
  request: 'auction-1',
  ssp: 'acme',
  mode: 'revenue',
  arm: 'explored',
  propensity: 0.005,
  density: 3.3,
  in: 2,
  floor: 0.5,
  out: 1.7,
  low: 0.7,
  winIn: 0.4,
  winOut: 0.3,
  theta: 1.2,
  lambda: 0.1,
  guard: 'none',
  publisher: '0123456789abcdef',
  domain: null,
  features: { country: 'DEU' },
  model: 3,
})
const linesOf = (file: string) => readFileSync(file, 'utf8').trim().split('\n')

t.test(
  'one line for each decision and each win, also for a win that the model may not learn from',
  async (t) => {
    const path = join(newFolder(), 'd.ndjson')
    const sink = createDecisionLog({ path, maxBytes: mebi, keep: 2, contexts: false }, log)
    sink.writeDecision(entry('a'))
    sink.writeWin({ time: 5, id: 'a', ssp: 'acme', cleared: 1.6, late: false })
    sink.writeWithdrawal({ time: 6, id: 'b', ssp: 'acme' })
    await sink.close()
    const [decision, win, withdrawn] = linesOf(path).map((line) => JSON.parse(line))
    t.same(decision, entry('a'))
    t.same(win, { time: 5, id: 'a', ssp: 'acme', cleared: 1.6, late: false, won: true })
    t.same(withdrawn, { time: 6, id: 'b', ssp: 'acme', withdrawn: true })
    t.equal(statSync(path).mode & 0o777, 0o600, 'nobody else reads it')
    t.same(sink.counts, { written: 3, dropped: 0, failed: 0 })
  },
)

t.test('it is rotated by size, and only so many are kept', async (t) => {
  const folder = newFolder()
  const path = join(folder, 'd.ndjson')
  const sink = createDecisionLog({ path, maxBytes: 1000, keep: 2, contexts: false }, log)
  for (let n = 0; n < 12; n++) {
    for (let m = 0; m < 2; m++) sink.writeDecision(entry(`${n}-${m}`))
    await sink.flush()
  }
  await sink.close()
  t.same(readdirSync(folder).sort(), ['d.ndjson', 'd.ndjson.1', 'd.ndjson.2'])
  const ids = ['d.ndjson.2', 'd.ndjson.1', 'd.ndjson'].flatMap((file) =>
    linesOf(join(folder, file)).map((line) => JSON.parse(line).id),
  )
  t.equal(ids.at(-1), '11-1')
  t.same(
    ids,
    [...ids].sort((a, b) => Number.parseFloat(a) - Number.parseFloat(b)),
    'oldest in the highest number',
  )
  for (const file of readdirSync(folder)) t.ok(statSync(join(folder, file)).size <= 1000)
})

t.test('half a line that a crash left costs itself alone', async (t) => {
  const path = join(newFolder(), 'd.ndjson')
  appendFileSync(path, '{"time":1,"id":"whole"}\n{"time":2,"id":"ha')
  const sink = createDecisionLog({ path, maxBytes: mebi, keep: 2, contexts: false }, log)
  sink.writeDecision(entry('next'))
  await sink.close()
  const lines = linesOf(path)
  t.equal(lines.length, 3)
  t.equal(JSON.parse(lines[2]!).id, 'next')
})

t.test(
  'a full disk costs lines, is said once, and nothing else',
  { skip: existsSync('/dev/full') ? false : '/dev/full not found' },
  async (t) => {
    errors.length = 0
    const sink = createDecisionLog(
      { path: '/dev/full', maxBytes: mebi, keep: 2, contexts: false },
      log,
    )
    for (let n = 0; n < 3; n++) {
      sink.writeDecision(entry(`${n}`))
      await sink.flush()
    }
    await sink.close()
    t.equal(sink.counts.failed, 3)
    t.equal(errors.length, 1)
  },
)

t.test('a folder that is gone is found again, and the buffer is bounded', async (t) => {
  const path = join(newFolder(), 'gone', 'd.ndjson')
  const sink = createDecisionLog({ path, maxBytes: mebi, keep: 2, contexts: false }, log)
  for (let n = 0; n < 60_000; n++) sink.writeDecision(entry('x'))
  t.equal(sink.counts.dropped, 10_000)
  await sink.flush()
  t.equal(sink.counts.failed, 50_000)
  await sink.close()
})
