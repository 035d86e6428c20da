/** A configuration is applied supplier by supplier, with yields to the event loop. */
import t from 'tap'
import { createSlices } from '../../opd/base/slices.ts'
import { activeSuppliers, swapSuppliers } from '../../service/bid-path.ts'
import { loadConfig } from '../../service/config/load.ts'
import { file } from '../support/config.ts'

const suppliersOf = (ids: string[]) =>
  loadConfig(
    file(`suppliers: [${ids.map((id) => `{id: ${id}, endpoints: ["http://x"]}`).join()}]\n`),
  ).config!.suppliers

function world() {
  const calls: string[] = []
  return {
    calls,
    parts: {
      set: ({ supplier }: { supplier: { id: string } }) => void calls.push(`set ${supplier.id}`),
      remove: (id: string) => void calls.push(`remove ${id}`),
    },
    slices: {
      async next() {
        calls.push('slice')
      },
    },
  }
}

t.test('each supplier is changed as a whole; an unchanged supplier is not touched', async (t) => {
  const { calls, parts, slices } = world()
  const [a, b, c] = suppliersOf(['a', 'b', 'c']) as [never, never, never]
  const [otherB, d] = suppliersOf(['b', 'd']) as [never, never]
  const taken = activeSuppliers([a, b, c], new Set())
  await swapSuppliers(taken, [d, a, otherB], parts, slices, new Set())
  t.same(calls, ['set d', 'slice', 'slice', 'set b', 'slice', 'remove c', 'slice'])
  t.same([...taken.keys()].sort(), ['a', 'b', 'd'])
  t.equal(taken.get('b')!.supplier, otherB)
})

t.test(
  'a supplier whose opd block had faults is taken in though its rest reads as before',
  async (t) => {
    const { calls, parts, slices } = world()
    const suppliers = suppliersOf(['a', 'b'])
    const taken = activeSuppliers(suppliers, new Set(['b']))
    t.equal(taken.get('b')!.invalid, true)
    await swapSuppliers(taken, suppliers, parts, slices, new Set(['b']))
    t.same(calls, ['slice', 'slice'], 'the file is the one of the start')
    calls.length = 0
    await swapSuppliers(taken, suppliers, parts, slices, new Set())
    t.same(calls, ['slice', 'set b', 'slice'])
    t.equal(taken.get('b')!.invalid, false)
  },
)

t.test('a slice ends after a millisecond of work, and others have their turn', async (t) => {
  let clock = 0
  let turns = 0
  const slices = createSlices(
    () => clock,
    async () => {
      turns++
    },
  )
  for (let piece = 0; piece < 100; piece++) {
    clock += 0.25
    await slices.next()
  }
  t.equal(turns, 25)
  t.equal(slices.next(), undefined, 'no promise while a slice lasts')
})
