import { readFileSync } from 'node:fs'
import t from 'tap'
import { build, modules } from '../../opd/wasm/build.ts'

for (const [folder, target] of Object.entries(modules))
  t.test(`the committed WebAssembly of ${folder} is what its sources build`, async (t) => {
    const found = readFileSync(target, 'utf8')
    t.ok(found === (await build(folder)), 'run `npm run build:wasm`')
  })
