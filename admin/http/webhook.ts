/** Calls of other services: JSON, signed with a secret that both know. */
import { createHmac } from 'node:crypto'

export interface Webhook {
  url: string
  secret: string
}

/** Milliseconds until a receiver must have answered. */
const longest = 10_000

/** `t` and the body, so that an old call cannot be sent again as a new one. */
const signature = (secret: string, t: number, body: string) =>
  createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')

/**
 * Posts an event. Rejects unless the answer is 2xx. `id` is that of the event: a receiver that gets it twice has got it once.
 * The header `bidweir-signature` is `t=<seconds since 1970>,v1=<HMAC-SHA256 of "t.body", hex>`.
 *
 * @param now milliseconds since the epoch
 * @throws if there is no answer, or another than 2xx
 */
export async function callWebhook(
  { url, secret }: Webhook,
  { id, event, ...content }: { id: string; event: string } & Record<string, unknown>,
  now: number,
): Promise<void> {
  const body = JSON.stringify({ id, event, ...content })
  const t = Math.floor(now / 1000)
  const response = await fetch(url, {
    method: 'POST',
    // not followed: the answer is then the redirection
    redirect: 'manual',
    signal: AbortSignal.timeout(longest),
    headers: {
      'content-type': 'application/json',
      'bidweir-signature': `t=${t},v1=${signature(secret, t, body)}`,
    },
    body,
  }).catch((error: Error & { cause?: { code?: string } }) => {
    // what fetch says of itself names no cause, and its cause names the address, which may be a secret
    const why = error.name === 'TimeoutError' ? 'in 10 s' : `(${error.cause?.code ?? error.name})`
    throw new Error(`the receiver did not answer ${why}`)
  })
  await response.body?.cancel()
  if (!response.ok) throw new Error(`the receiver answered ${response.status}`)
}
