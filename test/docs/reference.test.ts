import { readFileSync } from 'node:fs'
import t from 'tap'
import { reference } from '../../docs/generate.ts'

t.test('docs/reference is what the code says (npm run docs)', async (t) => {
  for (const [name, text] of Object.entries(await reference())) {
    const file = new URL(`../../docs/reference/${name}`, import.meta.url)
    t.equal(readFileSync(file, 'utf8'), text, name)
  }
})
