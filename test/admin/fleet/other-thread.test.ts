/**
 * What consoles poll, what alerts compare and what nodes publish is made on a thread of its own: the one that carries bids copies
 * numbers alone.
 */
import { openReader } from '../../../admin/store/reader.ts'
import { newFolder } from '../../support/process.ts'
import { echoSupplier, startNode } from '../../support/service-node.ts'
import { onBoth } from '../../support/store.ts'
import { until } from '../../support/until.ts'

interface Profile {
  nodes: { callFrame: { functionName: string; url: string }; hitCount?: number }[]
}

const ids = Array.from({ length: 200 }, (_, n) => `s${n}`)

/** Alerts are compared every 30 seconds, and figures are published every ten: here twice a second. */
const sooner = `data:text/javascript,${encodeURIComponent(`
const { setInterval: real } = globalThis
globalThis.setInterval = (run, ms) => real(run, ms === 30_000 || ms === 10_000 ? 500 : ms)`)}`

const rows = /(?:admin\/fleet\/(?:figures|funnel|health|kept-sums)|service\/node-figures)\.ts$/
const texts = /^(?:stateOf|listed|headOf|funnelOf|conditionsOf|alertChanges|publishedLines) /

onBoth(async (t, database) => {
  const supplier = await echoSupplier()
  const secret = Buffer.alloc(32, 5).toString('base64url')
  const node = await startNode({
    suppliers: ids.map((id) => `id: ${id}, opd: {enabled: true}`),
    endpoint: supplier.url,
    more: `store: {database: "${database.url}"}\nopd: {keys: [{id: 1, secret: ${secret}}]}`,
    ...{ folder: newFolder(), preload: sooner },
  })
  const { db, postgres } = await openReader(database.url)
  t.teardown(async () => {
    await db.destroy()
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
  const forget = async () => {
    await db.updateTable('alert_rounds').set({ at: 0 }).execute()
    await db.deleteFrom('node_figures').execute()
  }
  /** Whether alerts were compared and figures published since. */
  const isBoth = async () => {
    const compared = await db.selectFrom('alert_rounds').select('at').executeTakeFirstOrThrow()
    const published = await db.selectFrom('node_figures').select('node').execute()
    return Number(compared.at) > 0 && (!postgres || published.length > 0)
  }
  let ran: string[] = []
  await until(async () => {
    await forget()
    ran = await profiled()
    return (await isBoth()) && ran.some((line) => /service\/node-counts\.ts$/.test(line))
  })
  t.same(
    ran.filter((line) => rows.test(line) || texts.test(line)),
    [],
  )
})
