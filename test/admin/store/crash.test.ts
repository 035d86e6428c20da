/** kill -9 at random moments while eight writers store wins and eight store changes: everything acknowledged is there, complete. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { openStore } from '../../../admin/store/index.ts'
import { readSuppliers } from '../../../admin/store/suppliers.ts'
import { ledgerTable } from '../../../admin/store/tables.ts'
import { onBoth, silent, storeAt } from '../../support/store.ts'
import { timePasses, until } from '../../support/until.ts'

const options = { now: Date.now, log: silent, every: 50 }
const script = fileURLToPath(new URL('writer.ts', import.meta.url))

/** What one life of the writer acknowledged. */
async function life(url: string, round: number): Promise<string[]> {
  const child = spawn(process.execPath, [script, url, String(round)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout.on('data', (chunk) => {
    text += chunk
  })
  await until(() => text.includes('\nset ') && text.includes('\nwin '))
  await timePasses((round * 13) % 60, 'the process is killed at another moment in each round')
  child.kill('SIGKILL')
  await once(child, 'close')
  return text.split('\n').slice(0, -1)
}

onBoth(async (t, database) => {
  const { url } = database
  const rounds = database.stop === undefined ? 6 : 4
  const lines: string[] = []
  const restarts: number[] = []
  for (let round = 0; round < rounds; round++) {
    lines.push(...(await life(url, round)))
    const began = performance.now()
    const again = await openStore(url, options)
    await readSuppliers(again, ['acme'])
    restarts.push(performance.now() - began)
    await again.close()
  }
  const store = await storeAt(t, database, options)
  const said = (kind: string) =>
    lines.map((line) => line.split(' ')).filter(([word]) => word === kind)

  t.test('wins: none lost, none doubled', async (t) => {
    const rows = await store.db.selectFrom(ledgerTable(store.postgres)).select('decision').execute()
    const stored = new Set(rows.map(({ decision }) => decision))
    t.equal(stored.size, rows.length)
    const wins = said('win').map(([, decision]) => decision!)
    t.same(
      wins.filter((decision) => !stored.has(decision)),
      [],
    )
    t.ok(wins.length >= rounds, `${wins.length} acknowledged`)
  })

  t.test('changes: none lost, none torn, each with its audit row and its ETag', async (t) => {
    const [rows] = await readSuppliers(store, ['acme'])
    const audit = await store.db.selectFrom('audit').selectAll().orderBy('id').execute()
    t.equal(audit.length, rows!.revision, 'one row of the trail for each change')
    const states = audit.map(({ before, after }) => ({
      before: JSON.parse(before!),
      after: JSON.parse(after!),
    }))
    let breaks = 0
    for (const [n, { before }] of states.entries())
      if (n > 0 && !same(before, states[n - 1]!.after)) breaks++
    t.equal(breaks, 0, 'each begins where the last one ended')
    const last = states.at(-1)!.after
    t.same(last.seats, rows!.seats)
    t.same(last.datacenters, rows!.datacenters)
    // the response is the state after the change that its ETag names
    const stateAt = (etag: string) => states[Number(etag) - 1]!.after
    const wrong = said('set').filter(([, writer, n, etag]) => {
      const { seats, datacenters } = stateAt(etag!)
      const seat = seats.find(({ name }: { name: string }) => name === `w${writer}`)
      const center = datacenters.find(
        (datacenter: { location: string }) => datacenter.location === `l${writer}`,
      )
      return center.client_qps !== Number(n) || seat.is_active !== (Number(n) % 2 === 0)
    })
    t.same(wrong, [])
    const seats = new Set(rows!.seats.map(({ name }) => name))
    t.same(
      said('new').filter(([, name]) => !seats.has(name!)),
      [],
    )
    const most = new Map(said('set').map(([, writer, n]) => [writer, Number(n)]))
    for (const [writer, n] of most) {
      const center = rows!.datacenters.find(({ location }) => location === `l${writer}`)!
      const seat = rows!.seats.find(({ name }) => name === `w${writer}`)!
      t.ok(center.client_qps! >= n, `writer ${writer}: ${n} was acknowledged`)
      t.equal(seat.is_active, center.client_qps! % 2 === 0, 'seat and data center agree')
    }
    t.ok(said('set').length >= rounds, `${said('set').length} acknowledged`)
  })

  restarts.sort((one, other) => one - other)
  const median = restarts[Math.floor(rounds / 2)]!
  t.comment(`opened and read again after ${median.toFixed()} ms (median)`)
})

const same = (one: unknown, other: unknown) =>
  JSON.stringify(sorted(one)) === JSON.stringify(sorted(other))
/** Names of an object in one order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, value]) => [name, sorted(value)]),
  )
}
