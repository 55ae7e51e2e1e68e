import { Type } from 'typebox'
import { type Content, json, type Operation } from './operation.ts'
import { shape } from './shapes.ts'

const Alive = shape('Alive', { status: Type.Literal('ok') })

const Ready = shape('Ready', {
  status: Type.Literal('ready'),
  degraded: Type.Boolean({ description: 'Redis is unavailable, and the node continues without it' }),
})

const Stopping = shape('Stopping', { status: Type.Literal('stopping') })

const BYTES: Content = { type: '*/*', schema: { type: 'string', format: 'binary' } }

const COMMON = { method: 'GET', tag: 'Node', scope: null } as const

export const NODE: readonly Operation[] = [
  {
    ...COMMON,
    path: '/results/:token',
    id: 'result',
    summary: 'Download a result by its signed URL',
    description: 'For results stored in a folder; an S3 store serves its URLs itself.',
    parameters: [
      {
        name: 'token',
        in: 'path',
        required: true,
        description: 'from the URL',
        schema: { type: 'string' },
      },
      { name: 'Range', in: 'header', description: 'a single byte range', schema: { type: 'string' } },
    ],
    answers: [
      { status: 200, description: 'the full result', contents: [BYTES], headers: ['Accept-Ranges'] },
      {
        status: 206,
        description: 'the requested range',
        contents: [BYTES],
        headers: ['Accept-Ranges', 'Content-Range'],
      },
    ],
    errors: ['NOT_FOUND', 'INTERNAL', 'DEPENDENCY_UNAVAILABLE'],
  },
  {
    ...COMMON,
    path: '/healthz',
    id: 'healthz',
    summary: 'Liveness',
    answers: [{ status: 200, description: 'the process is alive', contents: [json(Alive)] }],
    errors: [],
  },
  {
    ...COMMON,
    path: '/readyz',
    id: 'readyz',
    summary: 'Readiness',
    answers: [
      { status: 200, description: 'ready for requests', contents: [json(Ready)] },
      { status: 503, description: 'the node is stopping', contents: [json(Stopping)] },
    ],
    errors: [],
  },
  {
    ...COMMON,
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
      { status: 304, description: 'unchanged since `If-None-Match`', headers: ['ETag'] },
    ],
    errors: ['INTERNAL'],
  },
  {
    ...COMMON,
    path: '/docs',
    id: 'docs',
    summary: 'API reference',
    answers: [
      {
        status: 200,
        description: 'the page',
        contents: [{ type: 'text/html', schema: { type: 'string' } }],
        headers: ['ETag'],
      },
      { status: 304, description: 'unchanged since `If-None-Match`', headers: ['ETag'] },
    ],
    errors: ['INTERNAL'],
  },
  {
    ...COMMON,
    path: '/docs/:file',
    id: 'docsFile',
    summary: 'Docs assets',
    parameters: [{ name: 'file', in: 'path', required: true, schema: { type: 'string' } }],
    answers: [
      {
        status: 200,
        description: 'a script, a style sheet or an icon',
        contents: [BYTES],
        headers: ['ETag'],
      },
      { status: 304, description: 'unchanged since `If-None-Match`', headers: ['ETag'] },
    ],
    errors: ['NOT_FOUND', 'INTERNAL'],
  },
]
