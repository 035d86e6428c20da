/** Bids and their wins at a steady rate, on kept connections and on new ones, with what failed. */

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

  async function one(id: string, agent: Agent) {
    const imp = [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5 }]
    const site = { domain: 'news.example', publisher: { id: 'pub-1' } }
    const bid = await send(bids, agent, 'POST', { id, imp, site, tmax: 900 })
    if (bid.status !== 200 && bid.status !== 204) throw new Error(`bid: ${bid.status} ${bid.body}`)
    load.bids++
    const offered = bid.status === 200 ? JSON.parse(bid.body).seatbid[0].bid[0] : undefined
    const [, context] = /svc_opd=([\w-]+)/.exec(`${offered?.nurl} ${offered?.adm}`) ?? []
    // the supplier was too slow, or its pod has just gone
    if (context === undefined) return
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
