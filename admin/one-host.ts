import { problem } from './problem.ts'
import { refusing } from './refusing.ts'

function hostsOf(rawHeaders: readonly string[]): number {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]!.length === 4 && rawHeaders[at]!.toLowerCase() === 'host') hosts++
  return hosts
}

/** RFC 9112 3.2: exactly one Host. Node takes two, and refuses none without saying why. */
export const oneHost = refusing(({ raw }, reply) => {
  const hosts = hostsOf(raw.rawHeaders)
  if (hosts === 1 || (hosts === 0 && raw.httpVersion === '1.0')) return false
  problem(reply.header('connection', 'close'), 400, 'malformed', 'Exactly one Host is wanted')
  return true
})
