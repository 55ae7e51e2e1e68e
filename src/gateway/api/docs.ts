import { GatewayError } from '../../contracts/errors.ts'
import type { Exchange, Reply } from '../edge/exchange.ts'
import { type Asset, type AssetAnswer, serveAsset } from './assets.ts'
import { publicEndpoint, type Watchers } from './endpoint.ts'
import { type Content, json, type Operation } from './openapi/operation.ts'

/** The API reference of a node: its OpenAPI document, and a page that shows it. */
export interface Docs {
  readonly document: (exchange: Exchange) => Promise<Reply>
  readonly page: (exchange: Exchange) => Promise<Reply>
  /** @throws GatewayError NOT_FOUND */
  readonly file: (name: string, exchange: Exchange) => Promise<Reply>
}

export interface DocsNeeds extends Watchers {
  readonly docs: Docs
}

/**
 * Prepares the API reference. Document and page are made when they are first asked for, out of modules that are loaded
 * only then.
 *
 * @param operations every endpoint of the node
 * @param look       files that give the page its look
 */
export function createDocs(operations: readonly Operation[], look: Readonly<Record<string, Asset>>): Docs {
  const document = serveAsset({ type: 'application/json', load: () => documentOf(operations) })
  let loading: ReturnType<typeof loadFiles> | null = null
  const file: Docs['file'] = async (name, exchange) => {
    loading ??= loadFiles(look)
    const answer = (await loading).get(name)
    if (answer === undefined) throw new GatewayError('NOT_FOUND')
    return answer(exchange)
  }
  return { document: (exchange) => document(exchange), page: (exchange) => file(PAGE, exchange), file }
}

/** No file of it can have this name. */
const PAGE = '/'

async function loadFiles(look: Readonly<Record<string, Asset>>): Promise<ReadonlyMap<string, AssetAnswer>> {
  const { PAGE_ASSET, PAGE_FILES } = await import('./openapi/page.ts')
  const all = Object.entries<Asset>({ [PAGE]: PAGE_ASSET, ...PAGE_FILES, ...look })
  return new Map(all.map(([name, asset]) => [name, serveAsset(asset)]))
}

const UNCHANGED = { status: 304, description: 'unchanged since `If-None-Match`', headers: ['ETag'] } as const
const HTML: Content = { type: 'text/html', schema: { type: 'string' } }
const BYTES: Content = { type: '*/*', schema: { type: 'string', format: 'binary' } }
const SHARED = { method: 'GET', tag: 'Node' } as const

export const openapiJson = publicEndpoint({
  ...SHARED,
  path: '/openapi.json',
  id: 'openapi',
  summary: 'OpenAPI document',
  answers: [
    {
      status: 200,
      description: 'OpenAPI 3.1',
      contents: [json({ type: 'object', description: 'OpenAPI 3.1' })],
      headers: ['ETag'],
    },
    UNCHANGED,
  ],
  errors: ['INTERNAL'],
  handle: (exchange, { docs }: DocsNeeds) => docs.document(exchange),
})

export const docsPage = publicEndpoint({
  ...SHARED,
  path: '/docs',
  id: 'docs',
  summary: 'API reference',
  answers: [{ status: 200, description: 'the page', contents: [HTML], headers: ['ETag'] }, UNCHANGED],
  errors: ['INTERNAL'],
  handle: (exchange, { docs }: DocsNeeds) => docs.page(exchange),
})

export const docsFile = publicEndpoint({
  ...SHARED,
  path: '/docs/:file',
  id: 'docsFile',
  summary: 'Docs assets',
  answers: [
    { status: 200, description: 'a script, a style sheet or an icon', contents: [BYTES], headers: ['ETag'] },
    UNCHANGED,
  ],
  errors: ['NOT_FOUND', 'INTERNAL'],
  handle: (exchange, { docs }: DocsNeeds) => docs.file(exchange.params[0] ?? '', exchange),
})

async function documentOf(operations: readonly Operation[]): Promise<string> {
  const { openApiDocument } = await import('./openapi/document.ts')
  return JSON.stringify(await openApiDocument(operations))
}
