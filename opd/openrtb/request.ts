/** Reads the bid request, once for each response with a macro. */
import {
  type Body,
  createScanner,
  KeyTable,
  type Read,
  readArray,
  readObject,
  type Scanner,
} from '../json/scanner.ts'
import { BRACE, BRACKET, malformed } from '../json/syntax.ts'
import { RequestFacts } from './facts.ts'
import { readImp } from './imp.ts'
import { leaf, markAmbiguous, numberOf, textOf } from './readers.ts'

const publisherKeys = new KeyTable<RequestFacts>(
  {
    id: leaf((facts, value) => {
      facts.publisher = textOf(value)
    }),
  },
  markAmbiguous,
)
const publisher: Read<RequestFacts> = (scan, at, facts) =>
  readObject(scan, at, publisherKeys, facts)

const domain = leaf<RequestFacts>((facts, value) => {
  const name = textOf(value)
  if (name !== undefined) facts.domains.push(name.toLowerCase())
})
const app = leaf<RequestFacts>((facts, value) => {
  const name = textOf(value) ?? numberOf(value)
  if (name !== undefined) facts.apps.push(String(name))
})

const page = leaf<RequestFacts>((facts, value) => {
  facts.page = textOf(value) ?? facts.page
})

const object =
  (keys: KeyTable<RequestFacts>): Read<RequestFacts> =>
  (scan, at, facts) =>
    readObject(scan, at, keys, facts)

const geo = new KeyTable<RequestFacts>({
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
    return readArray(scan, at, readImp, facts)
  },
  site: object(new KeyTable<RequestFacts>({ domain, page, publisher }, markAmbiguous)),
  app: object(
    new KeyTable<RequestFacts>({ bundle: app, id: app, domain, publisher }, markAmbiguous),
  ),
  dooh: object(new KeyTable<RequestFacts>({ id: app, domain, publisher }, markAmbiguous)),
  device: object(
    new KeyTable<RequestFacts>({
      devicetype: leaf((facts, value) => {
        if (typeof value === 'number') facts.device = String(value)
      }),
      geo: object(geo),
    }),
  ),
}

const repeated = (facts: RequestFacts, key: string) => {
  // The device is a feature of the model. Eligibility does not depend on it.
  if (key !== 'device') facts.ambiguous = true
}

const requestKeyTable = new KeyTable<RequestFacts>(members, repeated)
/** A standalone call has members of the BidRequest in its body, or in the object `bidrequest`. */
const callKeys = new KeyTable<RequestFacts>(
  { ...members, bidrequest: object(requestKeyTable) },
  repeated,
)

const rootOf =
  (keys: KeyTable<RequestFacts>): Read<RequestFacts> =>
  (scan, at, facts) =>
    scan.text.charCodeAt(at) === BRACE ? scan.object(at, keys, facts) : malformed

const readRoot = rootOf(requestKeyTable)
const readCall = rootOf(callKeys)

/** null: not UTF-8, not JSON, nested deeper than 1,000 levels, or not an object. */
export function readRequest(body: Body): RequestFacts | null {
  const scan = createScanner(body)
  return scan === null ? null : factsOf(scan, readRoot)
}

/** The members of a BidRequest in a standalone call, in its body or in its `bidrequest`. */
export function readStandaloneRequest(scan: Scanner): RequestFacts | null {
  return factsOf(scan, readCall)
}

function factsOf(scan: Scanner, root: Read<RequestFacts>): RequestFacts | null {
  const facts = new RequestFacts()
  return scan.document(root, facts) ? facts : null
}
