/**
 * Reads an RTBRequest of the Agentic RTB Framework 1.0 (IAB Tech Lab): a bid request and a bid response that an exchange
 * asks an agent about. The numbers are those of its published agenticrtbframework.proto.
 */
import { drained } from '../base/slices.ts'
import { RequestFacts } from '../openrtb/facts.ts'
import { requestFields } from '../protobuf/request.ts'
import { ProtobufResponse, responseFields } from '../protobuf/response.ts'
import { FieldTable, field, MessageReader, maxFields } from '../protobuf/wire.ts'

/** LIFECYCLE_DSP_BID_RESPONSE. 0 is sent by agents that pass calls on: the contents say what the call is. */
const dspBidResponse = 2
/** BID_SHADE: "adjust the bid price of a specific bid". */
export const bidShade = 6

/** Bids of one call. A call with more is not priced. */
export const maxAgentBids = 2000
/** Characters of the id of a call: its answer repeats it. */
const maxId = 1024
/** Fields that are read at once: they take 0.3 ms. */
const fieldsAtOnce = 10_000

/** One call of the Agentic RTB Framework, as read. `bytes` are those of the message. */
export class AgentCall {
  id = ''
  lifecycle = 0
  /** Milliseconds, latency included; 0: absent. */
  tmax = 0
  /** The business that sent the response; '': the call names none. */
  originator = ''
  intents: number[] = []
  /** null: the call has no bid request. */
  request: RequestFacts | null = null
  response: ProtobufResponse | null = null
  readonly bytes: Buffer

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  /** Whether the call is about a bid response. */
  get isBidResponse(): boolean {
    return this.lifecycle === 0 || this.lifecycle === dspBidResponse
  }

  /** Whether the exchange takes prices; a call that names no intent takes all. */
  get takesPrices(): boolean {
    return this.intents.length === 0 || this.intents.includes(bidShade)
  }
}

const originatorFields = new FieldTable<AgentCall>({
  2: field.text((call, value) => {
    call.originator = value
  }),
})

const callFields = new FieldTable<AgentCall>({
  1: field.int32((call, value) => {
    call.lifecycle = value
  }),
  2: field.text((call, value) => {
    call.id = value
  }),
  3: field.int32((call, value) => {
    call.tmax = value
  }),
  4: field.message(requestFields, (call) => {
    call.request ??= new RequestFacts()
    return call.request
  }),
  5: field.message(responseFields, (call) => {
    call.response ??= new ProtobufResponse()
    return call.response
  }),
  6: field.message(originatorFields, (call) => call),
  7: field.int32s((call, value) => void call.intents.push(value)),
})

/** `malformed`: the bytes are no RTBRequest. `too_large`: it has more fields than are read, or a longer id. */
export type UnreadableCall = 'malformed' | 'too_large'

/**
 * Reads one call, with a yield where the caller may do other work.
 *
 * @param bytes one RTBRequest in Protocol Buffers
 * @returns the call, or why it cannot be read
 */
export function* agentCallReader(bytes: Buffer): Generator<void, AgentCall | UnreadableCall> {
  const call = new AgentCall(bytes)
  const reader = MessageReader.readerOf(bytes, callFields, call)
  for (;;) {
    const state = reader.read(fieldsAtOnce)
    if (state === 'malformed') return state
    if (state === 'complete') return call.id.length > maxId ? 'too_large' : call
    if (reader.steps >= maxFields) return 'too_large'
    yield
  }
}

/** Reads one call at once. */
export const readAgentCall = (bytes: Buffer) => drained(agentCallReader(bytes))
