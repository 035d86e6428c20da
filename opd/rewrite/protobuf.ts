/**
 * A bid response and a bid request in Protocol Buffers, as the rewriter reads them. The bytes are spliced: the price, a fixed64,
 * the strings with macros, and the lengths of the messages around them. Every other byte stays as it was.
 */
import { ReadMemory, type WorkMemory } from '../json/work-memory.ts'
import { RequestFacts } from '../openrtb/facts.ts'
import { maxBids, maxSeats } from '../openrtb/response.ts'
import { requestFields } from '../protobuf/request.ts'
import {
  type LengthPlace,
  type ProtobufBid,
  ProtobufResponse as Response,
  responseFields,
  type ProtobufSeat as Seat,
} from '../protobuf/response.ts'
import { MessageReader } from '../protobuf/wire.ts'
import type { PricedBid } from '../shared/reasons.ts'
import {
  contextMarker,
  macrosPerSlice,
  type ReadState,
  type Removal,
  type RequestDocument,
  type ResponseDocument,
} from './document.ts'
import { type Macro, macroPrefix, macros } from './macros.ts'
import type { Splices } from './splice.ts'

const prefix = Buffer.from(macroPrefix)
const longestName = Math.max(...macros.map(({ name }) => name.length))

/** Fields that are read in one slice: about half a millisecond. */
const stepsPerSlice = 5000
/** Messages up to this length are read without a reservation of memory, as short documents of JSON are. */
const shortMessage = 64 * 1024

/** Reads a message in slices. */
class Slices {
  private readonly reader: MessageReader
  private readonly memory: ReadMemory | null

  constructor(body: Buffer, reader: MessageReader, memory: WorkMemory) {
    this.reader = reader
    this.memory = body.length > shortMessage ? new ReadMemory(memory) : null
  }

  next(): 'more' | 'complete' | 'malformed' | 'too_large' {
    const { reader, memory } = this
    const fits = memory === null || memory.reserveFor(reader.steps + stepsPerSlice)
    return fits ? reader.read(stepsPerSlice) : 'too_large'
  }
}

export class ProtobufResponse implements ResponseDocument<Seat> {
  private readonly body: Buffer
  private readonly response = new Response()
  private readonly slices: Slices
  /** The seat of the bid that was expanded last, and by how many bytes it has grown. */
  private seat: Growing<Seat> | null = null
  private expansion: Expansion | null = null

  constructor(body: Buffer, memory: WorkMemory) {
    this.body = body
    this.slices = new Slices(
      body,
      MessageReader.readerOf(body, responseFields, this.response),
      memory,
    )
  }

  mayHaveMacro(): boolean {
    return this.body.includes(contextMarker)
  }

  read(): ReadState {
    const state = this.slices.next()
    const { seats, bids } = this.response
    return seats.length > maxSeats || bids.length > maxBids ? 'too_large' : state
  }

  get hasSeats(): boolean {
    return this.response.seats.length > 0
  }

  get seats(): readonly Seat[] {
    return this.response.seats
  }

  get text(): string {
    return this.body.toString('latin1')
  }

  removeSeats(inactive: ReadonlySet<string>): Removal<Seat> {
    const kept: Seat[] = []
    const ranges: Removal<Seat>['ranges'][number][] = []
    let removed = 0
    for (const seat of this.response.seats) {
      const { name, bids, tagStart, end } = seat
      if (bids.length === 0 || name === null || !inactive.has(name)) kept.push(seat)
      else {
        ranges.push({ start: tagStart, end })
        removed += bids.length
      }
    }
    return { kept, removed, ranges }
  }

  hasMacro(bid: ProtobufBid): boolean {
    return bid.hasMacro(this.body)
  }

  expand(bid: ProtobufBid, priced: PricedBid, splices: Splices): boolean {
    if (this.expansion === null) {
      if (this.seat?.place !== bid.seat) {
        this.finish(splices)
        this.seat = new Growing(bid.seat, this.body, splices)
      }
      this.expansion = new Expansion(bid, this.body, splices)
    }
    if (!this.expansion.addBid(priced, splices)) return false
    this.seat!.growth += this.expansion.growth
    this.expansion = null
    return true
  }

  /** The length of the last seat is written when its last bid is expanded. */
  finish(splices: Splices): void {
    this.seat?.finish(splices)
    this.seat = null
  }
}

/** A text or a message whose length is written anew, once its contents are spliced. */
class Growing<Place extends LengthPlace> {
  readonly place: Place
  /** Bytes by which its contents have grown. */
  growth = 0
  private readonly body: Buffer
  private readonly splice: number

  constructor(place: Place, body: Buffer, splices: Splices) {
    this.place = place
    this.body = body
    this.splice = splices.addReplacement(place.lengthStart, place.start, '')
  }

  /** Writes the length. Returns by how many bytes length and contents have grown. */
  finish(splices: Splices): number {
    const { lengthStart, start, end } = this.place
    const { growth } = this
    // An equal length keeps its spelling, which may have more bytes than it needs.
    const length =
      growth === 0
        ? this.body.toString('latin1', lengthStart, start)
        : varintText(end - start + growth)
    splices.replaceText(this.splice, length)
    return growth + length.length - (start - lengthStart)
  }
}

function varintText(value: number): string {
  let text = ''
  let rest = value
  for (; rest >= 128; rest >>>= 7) text += String.fromCharCode((rest & 127) | 128)
  return text + String.fromCharCode(rest)
}

/** The splices of one bid. */
class Expansion {
  /** Bytes by which the bid and its length have grown, once all splices are added. */
  growth = 0
  private readonly body: Buffer
  private readonly bid: ProtobufBid
  private readonly message: Growing<ProtobufBid>
  /** Its strings with macros, and its price, in the order of the body. */
  private readonly fields: (LengthPlace | 'price')[]
  private fieldAt = 0
  private text: MacroText | null = null

  constructor(bid: ProtobufBid, body: Buffer, splices: Splices) {
    this.bid = bid
    this.body = body
    this.message = new Growing(bid, body, splices)
    const startOf = (field: LengthPlace | 'price') =>
      field === 'price' ? bid.pricePosition : field.start
    const texts = [bid.nurl, bid.burl, bid.lurl, bid.adm].filter((text) => text !== null)
    this.fields = [...texts, 'price' as const].sort((one, other) => startOf(one) - startOf(other))
  }

  /** False: the bid has more macros than fit in a slice. */
  addBid(priced: PricedBid, splices: Splices): boolean {
    const { fields, bid, message } = this
    for (; this.fieldAt < fields.length; this.fieldAt++) {
      const place = fields[this.fieldAt]!
      if (place === 'price') {
        const { pricePosition } = bid
        if (priced.priceText !== null)
          splices.addReplacement(pricePosition, pricePosition + 8, doubleText(priced.priceText))
        continue
      }
      this.text ??= new MacroText(place, this.body)
      if (!this.text.expand(priced, splices)) return false
      message.growth += this.text.growth
      this.text = null
    }
    this.growth = message.finish(splices)
    return true
  }
}

/** A string in which macros are expanded. */
class MacroText {
  /** Bytes by which the string and its length have grown, once its macros are expanded. */
  growth = 0
  private readonly body: Buffer
  private readonly place: LengthPlace
  private readonly bytes: Buffer
  private searchFrom = 0
  /** null: no macro was found yet. */
  private message: Growing<LengthPlace> | null = null

  constructor(place: LengthPlace, body: Buffer) {
    this.place = place
    this.body = body
    this.bytes = body.subarray(place.start, place.end)
  }

  /** Expands at most `macrosPerSlice` macros. False: there may be others. Expanded values are not expanded again. */
  expand(priced: PricedBid, splices: Splices): boolean {
    const { bytes, place } = this
    for (let count = 0; count < macrosPerSlice; count++) {
      const found = bytes.indexOf(prefix, this.searchFrom)
      if (found === -1) {
        this.growth = this.message?.finish(splices) ?? 0
        return true
      }
      const nameStart = found + prefix.length
      this.searchFrom = nameStart
      const macro = macroAt(bytes, nameStart)
      if (macro === undefined) continue
      this.searchFrom += macro.name.length
      this.message ??= new Growing(place, this.body, splices)
      const value = macro.value(priced)
      splices.addReplacement(place.start + found, place.start + this.searchFrom, value)
      this.message.growth += value.length - (this.searchFrom - found)
    }
    return false
  }
}

function macroAt(bytes: Buffer, nameStart: number): Macro | undefined {
  const name = bytes.toString('latin1', nameStart, nameStart + longestName)
  return macros.find((macro) => name.startsWith(macro.name))
}

/** The nearest double, which is never above that of in_ba, nor below that of the floor: rounding keeps the order. */
function doubleText(priceText: string): string {
  eightBytes.writeDoubleLE(Number(priceText))
  return eightBytes.toString('latin1')
}
const eightBytes = Buffer.alloc(8)

export class ProtobufRequest implements RequestDocument {
  readonly facts = new RequestFacts()
  private readonly slices: Slices

  constructor(body: Buffer, memory: WorkMemory) {
    this.slices = new Slices(body, MessageReader.readerOf(body, requestFields, this.facts), memory)
  }

  read(): ReadState {
    return this.slices.next()
  }
}
