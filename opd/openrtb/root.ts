/** The BidRequest around its imps: who sells, where, to whom. */
import { listOf, objectOf, type Read, Shape } from '../json/scanner.ts'
import { BRACE, BRACKET, malformed } from '../json/syntax.ts'
import type { RequestFacts } from './facts.ts'
import { readImp } from './imp.ts'
import { doubt, leaf, numberOf, textOf } from './readers.ts'

const publisherShape = new Shape<RequestFacts>(
  {
    id: leaf((facts, value) => {
      facts.publisher = textOf(value)
    }),
  },
  doubt,
)
const publisher: Read<RequestFacts> = (scan, at, facts) => objectOf(scan, at, publisherShape, facts)

const domain = leaf<RequestFacts>((facts, value) => {
  const name = textOf(value)
  if (name !== undefined) facts.domains.push(name.toLowerCase())
})
const app = leaf<RequestFacts>((facts, value) => {
  const name = textOf(value) ?? numberOf(value)
  if (name !== undefined) facts.apps.push(String(name))
})

const hostOf = /^[a-z]+:\/\/(?:[^/?#@]*@)?([^/:?#]+)/i
/** Only the host is kept of a page. */
const page = leaf<RequestFacts>((facts, value) => {
  const host = hostOf.exec(textOf(value) ?? '')?.[1]
  if (host !== undefined) facts.host = host.toLowerCase()
})

const object =
  (shape: Shape<RequestFacts>): Read<RequestFacts> =>
  (scan, at, facts) =>
    objectOf(scan, at, shape, facts)

const geo = new Shape<RequestFacts>({
  country: leaf((facts, value) => {
    facts.country = textOf(value)
  }),
})

const members: Readonly<Record<string, Read<RequestFacts>>> = {
  id: leaf((facts, value) => {
    facts.id = textOf(value) ?? ''
  }),
  test: leaf((facts, value) => {
    facts.test = value === true || numberOf(value) === 1
  }),
  at: leaf((facts, value) => {
    facts.at = numberOf(value)
  }),
  imp: (scan, at, facts) => {
    facts.impSent = true
    facts.impList = scan.text.charCodeAt(at) === BRACKET
    return listOf(scan, at, readImp, facts)
  },
  site: object(new Shape<RequestFacts>({ domain, page, publisher }, doubt)),
  app: object(new Shape<RequestFacts>({ bundle: app, id: app, domain, publisher }, doubt)),
  dooh: object(new Shape<RequestFacts>({ id: app, domain, publisher }, doubt)),
  device: object(
    new Shape<RequestFacts>({
      devicetype: leaf((facts, value) => {
        if (typeof value === 'number') facts.device = String(value)
      }),
      geo: object(geo),
    }),
  ),
}

const repeated = (facts: RequestFacts, key: string) => {
  // A device is a feature of the model and decides nothing.
  if (key !== 'device') facts.ambiguous = true
}

const requestShape = new Shape<RequestFacts>(members, repeated)
/** A standalone call has members of the BidRequest beside the bids, or in an object of their own. */
const callShape = new Shape<RequestFacts>(
  { ...members, bidrequest: object(requestShape) },
  repeated,
)

const rootOf =
  (shape: Shape<RequestFacts>): Read<RequestFacts> =>
  (scan, at, facts) =>
    scan.text.charCodeAt(at) === BRACE ? scan.object(at, shape, facts) : malformed

export const readRoot = rootOf(requestShape)
export const readCall = rootOf(callShape)
