/** A receiver of webhooks that keeps what is signed with its secret, and answers with `status`. */
import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export const webhookSecret = 'a secret of 16 characters'

export async function webhookReceiver<Event>(t: Test) {
  const got = { events: [] as Event[], forged: 0, status: 200 }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks).toString()
    const [, seconds, sent] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(
      String(request.headers['bidweir-signature']),
    )!
    const right = createHmac('sha256', webhookSecret).update(`${seconds}.${body}`).digest('hex')
    if (sent === right) got.events.push(JSON.parse(body) as Event)
    else got.forged++
    response.writeHead(got.status).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  return { got, url }
}
