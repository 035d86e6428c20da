/** The chart and the service agree: schema of the configuration, keys that need a restart, table of values. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { chartFiles, valueRows } from '../../docs/generate/chart.ts'
import { bidLogLimit, heldBytesLimit } from '../../proxy/memory-shares.ts'
import { chart, root } from './helm.ts'

t.test('generated files of the chart are what the code says (npm run docs)', async (t) => {
  for (const [name, text] of Object.entries(chartFiles()))
    t.equal(readFileSync(join(chart, name), 'utf8'), text, name)
})

t.test('every value is in the schema and in the table', async (t) => {
  const { properties } = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8')) as {
    properties: object
  }
  const top = valueRows().map(({ key }) => key.split('.')[0]!)
  t.same([...new Set(top)].sort(), Object.keys(properties).sort())
  t.same(
    valueRows().filter(({ about }) => about === ''),
    [],
    'each with its meaning',
  )
})

t.test('package, chart, image and the annotation of Artifact Hub have one version', async (t) => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const meta = parse(readFileSync(join(chart, 'Chart.yaml'), 'utf8'))
  t.match(meta, { version, appVersion: version })
  const [image] = parse(meta.annotations['artifacthub.io/images'])
  t.equal(image.image, `bidweir:${version}`)
  const listed = (name: string) =>
    parse(meta.annotations[`artifacthub.io/${name}`]) as { kind: string; url: string }[]
  // what Artifact Hub accepts, which refuses a version otherwise
  const kinds = /^(added|changed|deprecated|removed|fixed|security)$/
  for (const { kind } of listed('changes')) t.match(kind, kinds)
  for (const { url } of listed('recommendations'))
    t.match(url, /^https:\/\/artifacthub\.io\/packages\//)
  t.equal(meta.annotations['artifacthub.io/category'], 'networking')
  for (const name of ['containsSecurityUpdates', 'prerelease', 'operator'])
    t.match(meta.annotations[`artifacthub.io/${name}`], /^(true|false)$/, name)
  t.match(readFileSync(join(root, 'Dockerfile'), 'utf8'), `ARG VERSION=${version}\n`)
})

t.test('bodies, bid log and heap leave a quarter of the memory limit', async (t) => {
  const limit = 1024 ** 3
  const { value } = valueRows().find(({ key }) => key === 'resources')!
  t.equal(JSON.parse(value).limits.memory, '1Gi')
  const docker = readFileSync(join(root, 'Dockerfile'), 'utf8')
  const heap = Number(/--max-old-space-size-percentage=(\d+)/.exec(docker)![1]) / 100
  t.ok(heldBytesLimit('auto', limit) + bidLogLimit(limit) + heap * limit <= 0.75 * limit)
})
