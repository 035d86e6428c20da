import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commandHere } from '../support/command.ts'
import { chart, helm, manifests, needsHelm, type Rendered, template } from './helm.ts'
import { layOut } from './release.ts'

// The values of charts/bidweir/ci name these.
Object.assign(process.env, {
  ACME_CALLER: 'key',
  BOLT_TIMEOUT: '90ms',
  BIDWEIR_REDIS_PASSWORD: 'secret',
})

const cases = readdirSync(join(chart, 'ci'))
  .filter((file) => file.endsWith('-values.yaml'))
  .map((file) => file.replace('-values.yaml', ''))

for (const name of cases) {
  const values = join(chart, 'ci', `${name}-values.yaml`)
  let first: Rendered | undefined
  const rendered = () => {
    first ??= template('--values', values)
    return first
  }

  t.test(`${name}: lints`, needsHelm, async (t) => {
    const { ok, text, error } = helm('lint', '--strict', chart, '--values', values)
    t.ok(ok, text + error)
  })

  t.test(`${name}: renders as the golden file`, needsHelm, async (t) => {
    const golden = join(chart, 'ci/golden', `${name}.yaml`)
    const { ok, text, error } = rendered()
    t.ok(ok, error)
    // UPDATE_GOLDEN=1 writes what is rendered now; the diff is then reviewed as code.
    if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(golden, text)
    t.equal(text, readFileSync(golden, 'utf8'))
  })

  t.test(
    `${name}: the rendered bidweir.yaml is one that \`bidweir check\` accepts`,
    needsHelm,
    async (t) => {
      const config = layOut(t.testdir({}), manifests(rendered().text))
      const { code, said } = await commandHere('check', '--config', config)
      t.equal(code, 0, said)
    },
  )
}
