import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { chart, helm, manifests, needsHelm, root, template } from './helm.ts'
import { layOut } from './release.ts'

const cases = readdirSync(join(chart, 'ci'))
  .filter((file) => file.endsWith('-values.yaml'))
  .map((file) => file.replace('-values.yaml', ''))

for (const name of cases) {
  const values = join(chart, 'ci', `${name}-values.yaml`)

  t.test(`${name}: lints`, needsHelm, async (t) => {
    const { ok, text, error } = helm('lint', '--strict', chart, '--values', values)
    t.ok(ok, text + error)
  })

  t.test(`${name}: renders as the golden file`, needsHelm, async (t) => {
    const golden = join(chart, 'ci/golden', `${name}.yaml`)
    const { ok, text, error } = template('--values', values)
    t.ok(ok, error)
    // UPDATE_GOLDEN=1 writes what is rendered now; the diff is then reviewed as code.
    if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(golden, text)
    t.equal(text, readFileSync(golden, 'utf8'))
  })

  t.test(
    `${name}: the rendered bidweir.yaml is one that \`bidweir check\` accepts`,
    needsHelm,
    async (t) => {
      const config = layOut(t.testdir({}), manifests(template('--values', values).text))
      const check = ['main.ts', 'check', '--config', config]
      const set = { ACME_CALLER: 'key', BOLT_TIMEOUT: '90ms', BIDWEIR_REDIS_PASSWORD: 'secret' }
      const env = { ...process.env, ...set }
      const run = spawnSync(process.execPath, check, { cwd: root, env, encoding: 'utf8' })
      t.equal(run.status, 0, run.stdout + run.stderr)
    },
  )
}
