/** Finds floors in places of a standalone call where they are not read. They would silently count as 0. */

/** A search that avoids parsing: most calls without `imp` have neither key. */
const mayHoldFloors = (text: string) => text.includes('"imp"') || text.includes('"bidfloor"')

const isFloor = (key: string, value: unknown) =>
  (key === 'imp' && Array.isArray(value) && value.length > 0) ||
  (key === 'bidfloor' && Number(value) > 0)

const escaped = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1')

/**
 * JSON pointers (RFC 6901), at most `most`, of `imp` and `bidfloor` in a body without an `imp` in its place. Members of
 * `ext` are extensions, not floors. `text` is the JSON as latin1.
 */
export function misplacedFloors(text: string, most: number): string[] {
  const found: string[] = []
  if (!mayHoldFloors(text)) return found
  const open: [pointer: string, value: object][] = [
    ['', JSON.parse(Buffer.from(text, 'latin1').toString())],
  ]
  for (let each = open.pop(); each !== undefined && found.length < most; each = open.pop())
    for (const [key, value] of Object.entries(each[1])) {
      const pointer = `${each[0]}/${escaped(key)}`
      if (isFloor(key, value)) found.push(pointer)
      else if (key !== 'ext' && typeof value === 'object' && value !== null)
        open.push([pointer, value])
    }
  return found
}
