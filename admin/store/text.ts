/** A text that both databases accept: PostgreSQL rejects NUL and lone surrogates. */
export const storable = (text: string) => text.replaceAll('\0', '\uFFFD').toWellFormed()
