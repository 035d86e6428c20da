/** Bids at a steady rate, and wins of one bid in three, on kept connections and on new ones, with what failed. */

import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'

interface Load {
  /** Responses to bid requests. */
  bids: number
  /** Ids of bids whose win was acknowledged. */
  wins: Set<string>
  failures: string[]
  stop(): Promise<void>
}

interface Reply {
  status: number
  body: string
}

async function send(url: string, agent: Agent, method: string, body?: object): Promise<Reply> {
  const headers = { 'content-type': 'application/json' }
  // longer than any pause of a busy machine: a request fails when it is refused, cut or never answered
  const signal = AbortSignal.timeout(60_000)
  const asked = request(url, { method, agent, headers, signal })
  asked.end(body === undefined ? undefined : JSON.stringify(body))
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  return { status: response.statusCode!, body: await text(response) }
}

/** `bids` is the URL of a supplier, `notices` that of /opd/imp. */
export function startLoad(bids: string, notices: string, perSecond: number): Load {
  const agents = [new Agent({ keepAlive: true }), new Agent({ keepAlive: false })]
  const running = new Set<Promise<void>>()
  const load: Load = { bids: 0, wins: new Set(), failures: [], stop }
  const ssp = bids.split('/').at(-1)!
  let count = 0

  async function one(id: string, agent: Agent, won: boolean) {
    const imp = [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5 }]
    const site = { domain: 'news.example', publisher: { id: 'pub-1' } }
    const bid = await send(bids, agent, 'POST', { id, imp, site, tmax: 900 })
    if (bid.status !== 200 && bid.status !== 204) throw new Error(`bid: ${bid.status} ${bid.body}`)
    load.bids++
    const offered = bid.status === 200 ? JSON.parse(bid.body).seatbid[0].bid[0] : undefined
    const [, context] = /svc_opd=([\w-]+)/.exec(`${offered?.nurl} ${offered?.adm}`) ?? []
    // the supplier was too slow, or its pod has just gone
    if (context === undefined || !won) return
    const price = String(offered.price)
    const query = new URLSearchParams({ ssp, bid_id: offered.id, price, svc_opd: context })
    const win = await send(`${notices}?${query}`, agent, 'GET')
    if (win.status !== 200) throw new Error(`win: ${win.status} ${win.body}`)
    if (JSON.parse(win.body).status === 'attributed') load.wins.add(offered.id)
  }

  const timer = setInterval(() => {
    const number = count++
    const done = one(
      `curl-${process.pid}-${bids.length}-${Date.now()}-${number}`,
      agents[number % 2]!,
      // a rate of winning that no model expects before it has learned
      number % 3 === 0,
    )
      .catch((error) => {
        load.failures.push(`${new Date().toISOString()} ${error.code ?? ''} ${error.message}`)
      })
      .finally(() => running.delete(done))
    running.add(done)
  }, 1000 / perSecond)

  async function stop() {
    clearInterval(timer)
    await Promise.all(running)
    for (const agent of agents) agent.destroy()
  }
  return load
}

/** Bids one after the other on each of some connections, which are kept as long as the server keeps them. */
export function startKeptLoad(bids: string, connections: number) {
  const agents = Array.from(
    { length: connections },
    () => new Agent({ keepAlive: true, maxSockets: 1 }),
  )
  const load = { bids: 0, failures: [] as string[], stop }
  let going = true
  const running = agents.map(async (agent, index) => {
    for (let number = 0; going; number++) {
      const id = `curl-kept-${process.pid}-${index}-${number}`
      const imp = [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5 }]
      try {
        const { status } = await send(bids, agent, 'POST', { id, imp, tmax: 900 })
        if (status !== 200 && status !== 204) throw new Error(`bid: ${status}`)
        load.bids++
      } catch (error) {
        load.failures.push(`${id}: ${error}`)
      }
    }
  })

  async function stop() {
    going = false
    await Promise.all(running)
    for (const agent of agents) agent.destroy()
  }
  return load
}
