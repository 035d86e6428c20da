/** Configuration files of a test, in a folder of their own. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { newFolder } from './process.ts'

export const folder = newFolder()
let files = 0
export function file(text: string, name = `c${++files}.yaml`): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}
export const supplier = '  - id: acme\n    endpoints: [https://bid.acme.example/openrtb]\n'
