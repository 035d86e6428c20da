/** A value that is made at its first use. */
export class Lazy<T> {
  private readonly make: () => T
  private made: { value: T } | null = null

  constructor(make: () => T) {
    this.make = make
  }

  get value(): T {
    this.made ??= { value: this.make() }
    return this.made.value
  }
}
