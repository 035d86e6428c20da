/** A value that is made from an object, and made again for another object: an index of the current configuration. */
export class Derived<Source extends object, Value> {
  private readonly make: (source: Source) => Value
  private latest: { source: Source; value: Value } | null = null

  /** @param make must not change the source, which must not change either */
  constructor(make: (source: Source) => Value) {
    this.make = make
  }

  /** @param source its value is made only if the last call had another object */
  valueFrom(source: Source): Value {
    if (this.latest?.source !== source) this.latest = { source, value: this.make(source) }
    return this.latest.value
  }
}
