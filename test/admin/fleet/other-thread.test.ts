/** What consoles poll is made on a thread of its own: the one that carries bids copies numbers alone. */
import t from 'tap'
import { echoSupplier, startNode } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

interface Profile {
  nodes: { callFrame: { functionName: string; url: string }; hitCount?: number }[]
}

const ids = Array.from({ length: 100 }, (_, n) => `s${n}`)

t.test('the thread that carries bids makes no row of what consoles poll', async (t) => {
  const supplier = await echoSupplier()
  const node = await startNode({
    suppliers: ids.map((id) => `id: ${id}, opd: {enabled: true}`),
    endpoint: supplier.url,
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const access = await node.login()
  const call = async <Answer = object>(path: string, method = 'GET'): Promise<Answer> => {
    const headers = { authorization: `Bearer ${access}` }
    const response = await fetch(`${node.admin}/api/svc/${path}`, { method, headers })
    t.equal(response.status, 200, path)
    return (await response.json()) as Answer
  }
  for (const ssp of ids) await node.bid({ ssp, id: `b ${ssp}` })
  /** Functions of the main thread that ran while consoles were answered, with their files. */
  const profiled = async (): Promise<string[]> => {
    const profile = call<Profile>('debug/profile/?seconds=2&process=0', 'POST')
    let isDone = false
    const [{ nodes }] = await Promise.all([
      profile.finally(() => {
        isDone = true
      }),
      (async () => {
        while (!isDone) {
          // each reads all figures anew
          const { integrations } = await call<{ integrations: unknown[] }>('live/')
          t.equal(integrations.length, ids.length)
          await Promise.all(['live/list/', 'live/?ssp=s1', 'funnel/'].map((path) => call(path)))
        }
      })(),
    ])
    return nodes.map(({ callFrame: { functionName, url } }) => `${functionName} ${url}`)
  }
  const rows = /(?:admin\/fleet\/(?:figures|funnel|health|kept-sums)|service\/node-figures)\.ts$/
  let made: string[] = []
  // twice at most: alerts, every 30 seconds, read the same figures there
  for (let profiles = 0; profiles === 0 || (made.length > 0 && profiles < 2); profiles++) {
    let ran: string[] = []
    await until(async () => {
      ran = await profiled()
      return ran.some((line) => /service\/node-counts\.ts$/.test(line))
    })
    made = ran.filter(
      (line) => rows.test(line) || /^(?:stateOf|listed|headOf|funnelOf) /.test(line),
    )
  }
  t.same(made, [])
})
