/** A value that is made from another, and made again only from a different one: an index of the current configuration. */
export class Derived<Source, Value> {
  private readonly make: (source: Source) => Value
  private latest: { source: Source; value: Value } | null = null

  /** @param make must not change the source, which must not change either */
  constructor(make: (source: Source) => Value) {
    this.make = make
  }

  /** @param source its value is made only if it differs (`!==`) from that of the last call */
  valueFrom(source: Source): Value {
    if (this.latest?.source !== source) this.latest = { source, value: this.make(source) }
    return this.latest.value
  }
}
