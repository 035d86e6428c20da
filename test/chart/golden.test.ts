import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { chart, helm, manifests, needsHelm, root, template } from './helm.ts'

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
      const dir = t.testdir({})
      const all = manifests(template('--values', values).text)
      const map = all.find(({ kind }) => kind === 'ConfigMap')!
      const secret = all.find(({ kind }) => kind === 'Secret')?.data ?? {}
      const config = map.data!['bidweir.yaml']!
      // What the pod mounts under /etc/bidweir stands in a folder here.
      for (const [, file] of config.matchAll(/file: (\/etc\/bidweir\/\S+)/g)) {
        const path = file!.replace('/etc/bidweir', dir)
        const field = path.endsWith('/url')
          ? `${path.split('/').at(-2)}-url`
          : path.split('/').at(-1)!
        mkdirSync(dirname(path), { recursive: true })
        const own = secret[field]
        writeFileSync(path, own === undefined ? standIn(field) : Buffer.from(own, 'base64'))
      }
      writeFileSync(join(dir, 'bidweir.yaml'), config.replaceAll('/etc/bidweir', dir))
      const check = ['main.ts', 'check', '--config', join(dir, 'bidweir.yaml')]
      const env = { ...process.env, ACME_CALLER: 'key' }
      const run = spawnSync(process.execPath, check, { cwd: root, env, encoding: 'utf8' })
      t.equal(run.status, 0, run.stdout + run.stderr)
    },
  )
}

/** What a Secret of the operator's own would hold. */
function standIn(field: string): string {
  const urls: Record<string, string> = { 'database-url': 'postgres://u@db/x' }
  return urls[field] ?? Buffer.alloc(32, 7).toString('base64url')
}
