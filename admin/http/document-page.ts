/** The API document as a page: plain HTML without a script, readable by keyboard and by a screen reader. */
import { createHash } from 'node:crypto'

export interface ShownOperation {
  operationId: string
  summary: string
  description?: string
  tags: string[]
  security: object[]
  parameters?: {
    name: string
    in: string
    required?: boolean
    description?: string | undefined
    schema: object
    example?: unknown
  }[]
  requestBody?: { required: boolean; content: Contents }
  responses: Record<string, { description: string; content?: Contents }>
}
export type Contents = Record<string, { schema: object; example?: unknown }>

export interface ShownDocument {
  openapi: string
  info: { title: string; version: string; description: string; license: object }
  servers: object[]
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, ShownOperation>>
  components: { schemas: Record<string, object>; securitySchemes: object }
}

const style = `
:root { color-scheme: light dark; }
:root { background: light-dark(#fff, #151515); color: light-dark(#1a1a1a, #e8e8e8); }
body { margin: 0 auto; padding: 1rem; max-width: 75rem; font: 1rem/1.5 system-ui, sans-serif; }
h2 { margin-top: 2.5rem; }
h3 { display: inline; font-size: 1rem; }
details { margin: 0.4rem 0; padding: 0.4rem 0.8rem; border: 1px solid light-dark(#767676, #8c8c8c); border-radius: 0.4rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9rem; }
pre { max-height: 24rem; padding: 0.6rem; overflow: auto; background: light-dark(#f1f1f1, #262626); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: 0.2rem 0.8rem 0.2rem 0; text-align: left; vertical-align: top; }
a { color: light-dark(#0645ad, #8ab4f8); }
.method { display: inline-block; min-width: 3.2rem; font-weight: 700; }
`
/** Nothing is loaded, and only this style is applied. */
export const pagePolicy = `default-src 'none'; style-src 'sha256-${createHash('sha256')
  .update(style)
  .digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
}
const escaped = (text: unknown) => String(text).replace(/[&<>"]/g, (char) => entities[char]!)
/** Backquotes of descriptions become code. */
const prose = (text: string) => escaped(text).replace(/`([^`]+)`/g, '<code>$1</code>')

function json(value: unknown, label: string): string {
  const text = escaped(JSON.stringify(value, null, 2)).replace(
    /#\/components\/schemas\/(\w+)/g,
    '<a href="#schema-$1">$1</a>',
  )
  return `<pre tabindex="0" role="region" aria-label="${escaped(label)}">${text}</pre>`
}

function typeOf(schema: object): string {
  const { type, enum: values, format, ...rest } = schema as Record<string, unknown>
  const fallback = 'default' in rest ? `, default ${JSON.stringify(rest['default'])}` : ''
  const name = Array.isArray(values) ? values.join(' | ') : [type ?? 'any'].flat().join(' or ')
  return `${name}${format === undefined ? '' : ` (${format})`}${fallback}`
}

function parameters({ operationId, parameters = [] }: ShownOperation): string {
  if (parameters.length === 0) return ''
  const rows = parameters.map(
    ({ name, in: where, required, description = '', schema }) =>
      `<tr><th scope="row"><code>${escaped(name)}</code></th><td>${where}${required ? ', required' : ''}</td><td>${escaped(typeOf(schema))}</td><td>${prose(description)}</td></tr>`,
  )
  return `<h4>Parameters</h4><div class="scroll" tabindex="0" role="region" aria-label="Parameters of ${operationId}"><table><thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead><tbody>${rows.join('')}</tbody></table></div>`
}

const contents = (content: Contents, label: string) =>
  Object.entries(content)
    .map(
      ([type, { schema, example }]) =>
        `<p><code>${escaped(type)}</code></p>${
          example === undefined ? '' : json(example, `Example of ${label}, ${type}`)
        }<details><summary>Schema</summary>${json(schema, `Schema of ${label}, ${type}`)}</details>`,
    )
    .join('')

/** A command that can be pasted; the token and the host are variables of the shell. */
function curl(
  path: string,
  method: string,
  { security, parameters = [], requestBody }: ShownOperation,
) {
  const filled = parameters
    .filter((parameter) => parameter.in === 'path' && parameter.example !== undefined)
    .reduce((text, { name, example }) => text.replace(`{${name}}`, String(example)), path)
  const [type, body] = Object.entries(requestBody?.content ?? {})[0] ?? []
  return [
    `curl -X ${method} "$BASE${filled}"`,
    ...(security.length > 0 ? ['-H "Authorization: Bearer $TOKEN"'] : []),
    ...(type === undefined ? [] : [`-H 'Content-Type: ${type}'`]),
    ...(body?.example === undefined ? [] : [`-d '${JSON.stringify(body.example)}'`]),
  ].join(' \\\n  ')
}

function operation(path: string, method: string, shown: ShownOperation): string {
  const { operationId: id, summary, description = '', requestBody, responses } = shown
  const results = Object.entries(responses).map(
    ([status, { description: text, content = {} }]) =>
      `<details><summary>${status}: ${prose(text)}</summary>${contents(content, `${id} ${status}`)}</details>`,
  )
  return `<details id="${id}"><summary><h3><span class="method">${method}</span> <code>${escaped(path)}</code></h3> ${prose(summary)}</summary>
<p>${prose(description)}</p>
${parameters(shown)}
${requestBody === undefined ? '' : `<h4>Body${requestBody.required ? '' : ', optional'}</h4>${contents(requestBody.content, `the body of ${id}`)}`}
<h4>Responses</h4>${results.join('')}
<h4>As a command</h4><pre tabindex="0" role="region" aria-label="Command of ${id}">${escaped(curl(path, method, shown))}</pre>
</details>`
}

export function documentPage({ info, tags, paths, components }: ShownDocument): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, shown]) => ({
      path,
      method: method.toUpperCase(),
      of: shown,
    })),
  )
  const sections = tags.map(({ name, description }) => {
    const tagged = operations.filter(({ of: shown }) => shown.tags.includes(name))
    const texts = tagged.map(({ path, method, of: shown }) => operation(path, method, shown))
    return `<section aria-labelledby="${name}"><h2 id="${name}">${name}</h2><p>${prose(description)}</p>${texts.join('\n')}</section>`
  })
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) =>
      `<details id="schema-${name}"><summary><h3>${name}</h3></summary>${json(schema, `Schema ${name}`)}</details>`,
  )
  const links = [...tags.map(({ name }) => name), 'schemas'].map(
    (name) => `<li><a href="#${name}">${name}</a></li>`,
  )
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>API of ${escaped(info.title)}</title><style>${style}</style></head><body>
<header><h1>API of ${escaped(info.title)} ${escaped(info.version)}</h1><p>${prose(info.description)}</p>
<p><a href="/api/openapi.json">The document as OpenAPI 3.1</a>, <a href="/">the console</a></p></header>
<nav aria-label="Parts"><ul>${links.join('')}</ul></nav>
<main>${sections.join('\n')}
<section aria-labelledby="schemas"><h2 id="schemas">schemas</h2>${schemas.join('\n')}</section></main>
</body></html>
`
}
