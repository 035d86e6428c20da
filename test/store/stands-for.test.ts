/** One bare win that nobody could place stands for one decision, on both databases and over two nodes. */
import { unplaced } from '../support/ledger-entry.ts'
import { onBoth, storeAt } from '../support/store.ts'

const unattributed = (decision: string, supplier: string | null) =>
  unplaced(decision, { bidId: 'b1', supplier, at: 1000 })

onBoth(async (t, database) => {
  const { ledger: one } = await storeAt(t, database)
  const { ledger: two } = await storeAt(t, database)
  await one.record(unattributed('bid:b1', null))
  await one.record(unattributed('bid@zeta:b1', 'zeta'))
  const win = { bidId: 'b1', event: 'win' as const, since: 500, supplier: 'acme' }
  const asked = ['d1', 'd2', 'd3'].flatMap((decision) => [
    one.standsFor(decision, win),
    two.standsFor(decision, win),
  ])
  const answers = await Promise.all(asked)
  const owners = ['d1', 'd2', 'd3'].filter((_, n) => answers[2 * n] || answers[2 * n + 1])
  t.equal(owners.length, 1, 'one decision takes it, on whichever node')
  t.equal(await two.standsFor(owners[0]!, win), true, 'and keeps it')
  t.equal(await one.standsFor('d9', win), false)
  t.equal(await one.standsFor('d9', { ...win, supplier: 'zeta' }), true, "zeta's own is free")
  t.equal(await one.standsFor('d8', { ...win, since: 2000 }), false, 'older than asked for')
  t.equal(await one.standsFor('d8', { ...win, event: 'billing' }), false)

  for (let round = 0; round < 30; round++) {
    const bidId = `raced ${round}`
    await one.record(unplaced(`bid:${bidId}`, { bidId, at: 1000 }))
    const both = [one, two, one, two].map((node) => node.standsFor('d', { ...win, bidId }))
    t.same(await Promise.all(both), [true, true, true, true], 'one decision asked for at once')
  }
})
