/** The console names a node that no bid request reaches while other nodes of its location have them. */
import t from 'tap'
import type { NodeFigures } from '../../../admin/fleet/figures.ts'
import { liveJson } from '../../../admin/fleet/live.ts'
import type { LiveSnapshot } from '../../../admin/fleet/live-schema.ts'

const node = (name: string, idle: number | null, location = 'here'): NodeFigures => ({
  ...{ node: name, location, version: '1', started: 0, at: 0, window: 300 },
  ...{ problems: [], idle, unplaced: {}, suppliers: {} },
})
async function problemsOf(...nodes: NodeFigures[]) {
  const text = await liveJson(
    {
      nodes: async () => nodes,
      kept: { read: async () => {}, armsOf: () => null },
      suppliers: () => [],
      holds: () => new Set(),
      unchecked: () => new Set(),
      currency: () => 'USD',
      opd: () => null,
      inactive: () => [],
      now: () => 0,
    },
    {
      call: 'live',
      caller: { subject: 'admin', account: '*', roles: new Set(['viewer']) },
      query: {},
    },
  )
  return (JSON.parse(text!) as LiveSnapshot).nodes.map(({ problems }) =>
    problems.map(({ text }) => text).join(),
  )
}
const named = /^no bid request has come for 2 min, and other nodes have them/

t.test('a node without bids beside one with bids is named', async (t) => {
  const [idle, busy] = await problemsOf(node('a', 150), node('b', 10))
  t.match(idle, named)
  t.equal(busy, '')
})

t.test(
  'nodes are not named if no node has bids, if they only train, or if they are of another location',
  async (t) => {
    t.same(await problemsOf(node('a', 150), node('b', 150)), ['', ''])
    t.same(await problemsOf(node('a', null), node('b', 10)), ['', ''])
    t.same(await problemsOf(node('a', 150, 'elsewhere'), node('b', 10)), ['', ''])
  },
)
