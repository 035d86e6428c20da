/**
 * The same damaged bytes to both lanes: the same responses, the same bytes sent on, the same end of the connection.
 * `FUZZ_SEED` and `FUZZ_CASES` (of each kind) run others, or more.
 */
import t, { type Test } from 'tap'
import { fuzzedAnswer } from '../../support/fuzz/answers.ts'
import { bid, type Conversation, canary, laneWorld, slots } from '../../support/fuzz/lane.ts'
import { fuzzedRequests, repeatedRequest } from '../../support/fuzz/requests.ts'
import { source } from '../../support/random.ts'
import { field, type Response, responsesOf } from '../../support/responses.ts'
import { type Transport, testCertificate } from '../../support/transport.ts'

const seed = Number(process.env['FUZZ_SEED'] ?? 1)
/** Fewer over TLS, where each has several handshakes. */
const cases = (usual: number, transport: Transport) =>
  Number(process.env['FUZZ_CASES'] ?? usual / (transport === 'tls' ? 5 : 1))

/** A test of both lanes, over plain TCP and over TLS. */
function test(title: string, run: (t: Test, transport: Transport) => Promise<void>): void {
  const skip = testCertificate() === null ? 'openssl not found' : false
  t.test(title, (t) => run(t, 'plain'))
  t.test(`${title}, over TLS`, { skip }, (t) => run(t, 'tls'))
}

/** What can be seen of a case on one lane. */
interface Seen {
  /** Null: what came is no sequence of responses. */
  responses: Response[] | null
  closed: boolean
  forwarded: string[]
  /** Another request afterwards is served as it should. */
  well: boolean
}

/** Why two lanes may differ, and where. `bytes`: what was sent. */
interface Allowed {
  why: string
  where(bytes: string, fast: Seen, general: Seen): boolean
}

const allowedOfRequests: readonly Allowed[] = [
  {
    why: 'an offer to upgrade is ignored behind a request whose response is not finished: a race',
    where: (bytes) => / HTTP\/1[\s\S]* HTTP\/1[\s\S]*websocket/i.test(bytes),
  },
  {
    why: 'the general lane ends a connection with an offer to upgrade, because node:http drops what is behind it',
    where: (bytes, _fast, general) =>
      /\nupgrade:/i.test(bytes) && /connection:[^\r\n]*upgrade/i.test(bytes) && general.closed,
  },
  {
    why: 'a request that waits for its turn is read on: a fault of its body refuses it before its head is looked at',
    where: (_bytes, fast, general) => {
      const [one, other] = [finals(fast), finals(general)]
      const refused = (responses: Response[]) => responses.pop()!.status >= 400
      return (
        Math.min(one.length, other.length) > 1 &&
        fast.closed === general.closed &&
        String(fast.forwarded) === String(general.forwarded) &&
        refused(one) &&
        refused(other) &&
        one.every(({ body }, index) => body === (other[index]?.body ?? body))
      )
    },
  },
]
const allowedOfAnswers: readonly Allowed[] = [
  {
    why: 'the fast lane reads a head when it is whole, llhttp refuses it at the first wrong byte',
    where: (_bytes, fast, general) => statusOf(fast) === 504 && statusOf(general) === 502,
  },
  {
    why: 'the fast lane refuses a head as soon as its framing is ambiguous, llhttp when the head is whole',
    where: (_bytes, fast, general) => statusOf(fast) === 502 && statusOf(general) === 504,
  },
  {
    why: 'a response that breaks off over TLS lacks what was not encrypted when its connection was closed',
    where: (_bytes, fast, general) => {
      const [one, other] = [finals(fast).at(-1), finals(general).at(-1)]
      return (
        /X-Forwarded-Proto: https/.test(String(fast.forwarded)) &&
        fast.closed &&
        general.closed &&
        one?.complete === false &&
        other?.complete === false &&
        (one.body.startsWith(other.body) || other.body.startsWith(one.body))
      )
    },
  },
  {
    why: 'undici reads a reason as UTF-8: one beyond ASCII is left out',
    where: (_bytes, fast, general) =>
      /[^\t -~]/.test(fast.responses?.[0]?.reason ?? '') &&
      statusOf(fast) === statusOf(general) &&
      finals(general)[0]!.body === finals(fast)[0]!.body,
  },
  {
    why: 'llhttp reads a coding or a length with the tab behind it',
    where: (bytes, fast, general) =>
      /(chunked|content-length: *\d+) *\\t/i.test(bytes) &&
      statusOf(fast) !== 502 &&
      statusOf(general) === 502,
  },
  {
    why: 'the fast lane takes lengths of at most 15 digits, llhttp those of 64 bits',
    where: (bytes, fast) => /content-length: *\d{16}/i.test(bytes) && statusOf(fast) === 502,
  },
  {
    why: 'llhttp takes no blank before or in a chunk extension (RFC 9112 7.1.1 says to read it)',
    where: (bytes) => /[0-9a-f]( |\\t)+;|;( |\\t)|( |\\t)=|=( |\\t)/i.test(bytes),
  },
  {
    why: 'llhttp takes a chunk extension without a name (RFC 9112 7.1.1 wants one)',
    where: (bytes, fast) => /[0-9a-f];=/i.test(bytes) && fast.closed,
  },
  {
    why: 'llhttp takes CR CR for the end of a line',
    where: (bytes, fast) => bytes.includes('\\r\\r') && statusOf(fast) === 502,
  },
]

const statusOf = (seen: Seen) => finals(seen)[0]?.status ?? 0

/** Fields in any order and spelling, less the time. */
function fieldsOf({ fields }: Response): string {
  const rows: string[] = []
  for (let index = 0; index < fields.length; index += 2)
    if (!/^date$/i.test(fields[index]!))
      rows.push(`${fields[index]!.toLowerCase()}: ${fields[index + 1]}`)
  return rows.sort().join('\n')
}

/** `100 Continue` comes where a request had to wait for its turn, and where it had not. */
const finals = ({ responses }: Seen) => responses?.filter(({ status }) => status >= 200) ?? []

function difference(fast: Seen, general: Seen): string | null {
  const shown = (seen: Seen) =>
    finals(seen).map(
      (response) =>
        `${response.status} ${response.reason}\n${fieldsOf(response)}\n\n${response.body} ${response.complete}`,
    )
  const [one, other] = [shown(fast), shown(general)].map((list) => JSON.stringify(list))
  if (one !== other) return 'responses'
  if (fast.closed !== general.closed) return 'end'
  return JSON.stringify(fast.forwarded) === JSON.stringify(general.forwarded) ? null : 'forwarded'
}

/** What no lane may do, whatever it got. */
function fault(seen: Seen): string | null {
  if (!seen.well) return 'the next request is not served'
  if (seen.responses === null) return 'no sequence of responses'
  const closing = finals(seen).findIndex((response) =>
    /close/i.test(field(response, 'connection') ?? ''),
  )
  if (closing >= 0 && closing < finals(seen).length - 1) return 'a response behind the last one'
  return null
}

interface Ran {
  /** Of the bytes that were sent. */
  bytes: string
  fast: Seen
  general: Seen
}

const failed = (allowed: readonly Allowed[], { bytes, fast, general }: Ran): string | null => {
  const found = fault(fast) ?? fault(general)
  if (found !== null) return found
  const what = difference(fast, general)
  return what === null || allowed.some(({ where }) => where(bytes, fast, general)) ? null : what
}

/**
 * Runs the cases, one a slot at a time. One that fails is repeated when no other runs: on a busy machine a time limit
 * may have passed.
 */
async function fuzz(
  count: number,
  allowed: readonly Allowed[],
  run: (slot: string, random: () => number) => Promise<Ran>,
): Promise<string[]> {
  const runCase = async (slot: string, number: number) => {
    const ran = await run(slot, source(seed * 1_000_003 + number))
    return { ran, what: failed(allowed, ran) }
  }
  const suspects: number[] = []
  let next = 0
  const work = async (slot: string) => {
    for (let number = next++; number < count; number = next++)
      if ((await runCase(slot, number)).what !== null) suspects.push(number)
  }
  await Promise.all(slots.map(work))
  const failures: string[] = []
  for (const number of suspects) {
    let { ran, what } = await runCase(slots[0]!, number)
    for (let tries = 1; what !== null && tries < 8; tries++)
      ({ ran, what } = await runCase(slots[0]!, number))
    if (what === null) continue
    failures.push(`FUZZ_SEED=${seed}, case ${number}: ${what}\n${JSON.stringify(ran, null, 1)}`)
    if (failures.length === 20) break
  }
  return failures
}

test('mutated requests', async (t, transport) => {
  const fast = await laneWorld(t, 'fast', transport, { timeout: '20s' })
  const general = await laneWorld(t, 'general', transport, { timeout: '20s' })
  const failures = await fuzz(cases(900, transport), allowedOfRequests, async (slot, random) => {
    const bytes = fuzzedRequests(slot, random)
    const last = bid(slot, canary)
    const together = random() < 0.5
    const seenOn = async (lane: typeof fast): Promise<Seen> => {
      const talk = await lane.converse(
        together ? bytes + last : bytes,
        together ? null : last,
        (text) => text.endsWith(canary),
      )
      const well = await lane.isWell(slot)
      return { ...cut(talk), well, forwarded: lane.taken(slot) }
    }
    const [one, other] = await Promise.all([seenOn(fast), seenOn(general)])
    return { bytes, fast: one, general: other }
  })
  t.equal(failures.length, 0, failures.join('\n\n'))
})

test('mutated requests behind the good one', async (t, transport) => {
  const fast = await laneWorld(t, 'fast', transport, { timeout: '5s' })
  const general = await laneWorld(t, 'general', transport, { timeout: '5s' })
  const failures = await fuzz(cases(350, transport), allowedOfRequests, async (slot, random) => {
    const [good, damaged] = repeatedRequest(slot, random)
    const behind = damaged + bid(slot, canary)
    const seenOn = async (lane: typeof fast): Promise<Seen> => {
      const talk = await lane.converse(good, behind, (text) => text.endsWith(canary))
      const well = await lane.isWell(slot)
      return { ...cut(talk), well, forwarded: lane.taken(slot) }
    }
    const [one, other] = await Promise.all([seenOn(fast), seenOn(general)])
    return { bytes: good + behind, fast: one, general: other }
  })
  t.equal(failures.length, 0, failures.join('\n\n'))
})

test('mutated answers of suppliers', async (t, transport) => {
  const route = { timeout: '400ms' }
  const fast = await laneWorld(t, 'fast', transport, route)
  const general = await laneWorld(t, 'general', transport, route)
  const failures = await fuzz(cases(450, transport), allowedOfAnswers, async (slot, random) => {
    const answer = fuzzedAnswer(random)
    const repeated = random() < 0.5
    const seenOn = async (lane: typeof fast): Promise<Seen> => {
      lane.answerWith(slot, answer)
      const ask = () =>
        lane.converse(
          bid(slot, '{"id":"1"}'),
          null,
          (text) => responsesOf(text)?.some(({ complete }) => complete) ?? false,
        )
      // The second time its head is a known one.
      if (repeated) await ask()
      const talk = await ask()
      const well = await lane.isWell(slot)
      return { ...cut(talk), well, forwarded: lane.taken(slot) }
    }
    const [one, other] = await Promise.all([seenOn(fast), seenOn(general)])
    return { bytes: JSON.stringify(answer), fast: one, general: other }
  })
  t.equal(failures.length, 0, failures.join('\n\n'))
})

const cut = ({ bytes, closed }: Conversation) => ({ responses: responsesOf(bytes), closed })
