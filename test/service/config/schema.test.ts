import { readFileSync } from 'node:fs'
import t from 'tap'
import { jsonSchema } from '../../../service/config/schema.ts'

t.test(
  'the shipped JSON Schema is the one of the code (npm run bidweir -- schema > bidweir.schema.json)',
  (t) => {
    const shipped = readFileSync(new URL('../../../bidweir.schema.json', import.meta.url), 'utf8')
    t.same(JSON.parse(shipped), JSON.parse(JSON.stringify(jsonSchema())))
    t.end()
  },
)
