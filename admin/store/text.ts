/** A text as both databases keep it: PostgreSQL refuses a NUL, and halves of characters are none. */
export const storable = (text: string) => text.replaceAll('\0', '\uFFFD').toWellFormed()
