/** JSON of lists that may be long, made in time slices: 1,000 suppliers at once would hold the event loop for 20 to 60 ms. */
import { createSlices } from '../../opd/base/slices.ts'

export const jsonType = 'application/json; charset=utf-8'

/**
 * The text of a list. An iterator that makes its values makes them in the same slices.
 *
 * @param values each is a value of JSON
 */
export async function listJson(values: Iterable<unknown>): Promise<string> {
  const slices = createSlices()
  const texts: string[] = []
  for (const value of values) {
    texts.push(JSON.stringify(value))
    await slices.next()
  }
  return `[${texts.join()}]`
}

/**
 * The text of an object with a long list, which is its last member. `head` has other members.
 *
 * @param head has the other members, none of which is long
 * @param name of the list
 * @param list its text, from `listJson`
 */
export const withList = (head: object, name: string, list: string): string =>
  `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(name)}:${list}}`
