import { readFileSync } from 'node:fs'
import t from 'tap'
import { build, target } from '../../../opd/json/wasm/build.ts'

t.test('the committed WebAssembly is what its sources build', async (t) => {
  const found = readFileSync(target, 'utf8')
  t.ok(found === (await build()), 'run `npm run build:wasm`')
})
