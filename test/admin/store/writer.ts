/**
 * A node that takes wins and changes from eight callers each, and says on stdout what it acknowledged, until it is
 * killed. Lines: `win <decision>`, `set <writer> <n> <revision>`, `new <seat> <revision>`.
 */
import { type ChangeResult, planCreate, planUpdate } from '../../../admin/management/rules.ts'
import { openStore } from '../../../admin/store/index.ts'
import { changeSupplier, readSuppliers, type SupplierRows } from '../../../admin/store/suppliers.ts'
import { entry } from '../../support/ledger-entry.ts'

const [url, round] = process.argv.slice(2) as [string, string]
const log = { info() {}, warn() {}, error() {} }
const store = await openStore(url, { now: Date.now, log })
const names = { id: 'acme', name: 'Acme', name_external: 'Acme' }
const say = (...words: unknown[]) => process.stdout.write(`${words.join(' ')}\n`)

/** As the calls of the API do it; the revision is their ETag. */
async function change(decide: (rows: SupplierRows) => ChangeResult): Promise<number> {
  const { revision } = await changeSupplier(store, 'acme', Date.now(), (before) => {
    const result = decide(before)
    if (!result.ok) throw new Error(JSON.stringify(result))
    const { after } = result
    const { seats, datacenters } = before
    const who = { who: 'w', account: '*', supplier: 'acme', action: 'update', requestId: round }
    return { after, entry: { ...who, before: { seats, datacenters }, after } }
  })
  return revision
}

const seat = (name: string, location: string) => ({
  name,
  is_active: true,
  qps: [{ location, value: 1_000_000_000 }],
})

async function wins(writer: number): Promise<never> {
  for (let n = 0; ; n++) {
    const decision = `${round}-${writer}-${n}`
    await store.ledger.record(entry(decision))
    say('win', decision)
  }
}

/** A seat and its data center change together: the flag tells whether `n` is even. */
async function changes(writer: number): Promise<never> {
  const location = `l${writer}`
  const name = `w${writer}`
  const [rows] = await readSuppliers(store, ['acme'])
  const standing = rows!.datacenters.find((center) => center.location === location)
  if (standing === undefined) {
    const body = { dsp_seats: [seat(name, location)], datacenters: [{ location, client_qps: 0 }] }
    await change((before) => planCreate(before, body, names))
  }
  for (let n = (standing?.client_qps ?? 0) + 1; ; n++) {
    const body = {
      dsp_seats: [{ name, is_active: n % 2 === 0 }],
      datacenters: [{ location, client_qps: n }],
    }
    say('set', writer, n, await change((before) => planUpdate(before, body, names)))
  }
}

const added = { dsp_seats: [seat(`round-${round}`, 'x')], datacenters: [] }
say('new', `round-${round}`, await change((before) => planCreate(before, added, names)))
const writers = Array.from({ length: 8 }, (_each, writer) => writer)
await Promise.all([...writers.map(wins), ...writers.map(changes)])
