import { once } from 'node:events'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { gunzipSync } from 'node:zlib'
import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'
import { type ReceivedSpan, readSpans } from './otlp-spans.ts'
import { waitUntil } from './wait-until.ts'

/** `take` answers 200, a number answers that status, `hang` answers nothing. */
export type Manner = 'take' | 'hang' | number

export interface OtlpReceiver {
  /** Value of OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly url: string
  /** What was taken, oldest first. */
  readonly spans: readonly ReceivedSpan[]
  /** Of all spans that were ever taken. */
  readonly attributeNames: ReadonlySet<string>
  readonly requests: readonly { readonly path: string; readonly headers: IncomingHttpHeaders }[]
  /** Whether any message that came, taken or not, holds a text. */
  holds(text: string): boolean
  behave(manner: Manner): void
  /** An outermost span and what is in it, once so many are; throws when they do not come. */
  tree(isOutermost: (span: ReceivedSpan) => boolean, children: number): Promise<SpanTree>
  forget(): void
}

/** The spans of one trace. */
export interface SpanTree {
  readonly root: ReceivedSpan
  /** What was done in it: children by the time at which they began. */
  readonly children: readonly ReceivedSpan[]
}

/** A receiver of traces that speaks OTLP over HTTP, in protobuf, compressed or not. */
export async function startOtlpReceiver(t: Pick<Test, 'teardown'>): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = []
  const requests: { path: string; headers: IncomingHttpHeaders }[] = []
  const messages: Buffer[] = []
  const attributeNames = new Set<string>()
  let manner: Manner = 'take'
  const url = await serveHttp(t, (request, response) => void receive(request, response))

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    await once(request, 'end')
    const { headers, url: path = '' } = request
    const sent = Buffer.concat(chunks)
    const message = headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent
    requests.push({ path, headers })
    messages.push(message)
    if (manner === 'hang') return
    if (manner === 'take') {
      const read = readSpans(message)
      spans.push(...read)
      for (const { attributes } of read) for (const name of Object.keys(attributes)) attributeNames.add(name)
    }
    response.statusCode = manner === 'take' ? 200 : manner
    response.setHeader('content-type', 'application/x-protobuf').end()
  }

  function treeOf(root: ReceivedSpan): SpanTree {
    const children = spans.filter(({ parentSpanId }) => parentSpanId === root.spanId)
    return { root, children: children.sort((a, b) => Number(a.startNs - b.startNs)) }
  }

  return {
    url,
    spans,
    attributeNames,
    requests,
    holds: (text) => messages.some((message) => message.includes(text)),
    behave(next) {
      manner = next
    },
    async tree(isOutermost, children) {
      const find = () => {
        const root = spans.find(isOutermost)
        return root === undefined ? null : treeOf(root)
      }
      if (await waitUntil(() => (find()?.children.length ?? -1) >= children)) return find()!
      throw new Error(`there is no such span among ${spans.map(({ name }) => name).join(', ')}`)
    },
    forget() {
      spans.length = 0
      requests.length = 0
      messages.length = 0
    },
  }
}
