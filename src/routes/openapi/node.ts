import { Type } from 'typebox'
import { type Content, json, type Operation } from './operation.ts'
import { shape } from './shapes.ts'

const Alive = shape('Alive', { status: Type.Literal('ok') })

const Ready = shape('Ready', {
  status: Type.Literal('ready'),
  degraded: Type.Boolean({ description: 'Redis is away, and the node goes on without it' }),
})

const Stopping = shape('Stopping', { status: Type.Literal('stopping') })

const BYTES: Content = { type: '*/*', schema: { type: 'string', format: 'binary' } }

const COMMON = { method: 'GET', tag: 'Node', scope: null } as const

export const NODE: readonly Operation[] = [
  {
    ...COMMON,
    path: '/results/:token',
    id: 'result',
    summary: 'Open a result by its signed URL',
    description: 'Where results are kept in a folder; an S3 store opens its URLs itself.',
    parameters: [
      {
        name: 'token',
        in: 'path',
        required: true,
        description: 'out of the URL',
        schema: { type: 'string' },
      },
      { name: 'Range', in: 'header', description: 'one range of bytes', schema: { type: 'string' } },
    ],
    answers: [
      { status: 200, description: 'the whole', contents: [BYTES], headers: ['Accept-Ranges'] },
      {
        status: 206,
        description: 'the range that was asked for',
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
    summary: 'The process answers',
    answers: [{ status: 200, description: 'it does', contents: [json(Alive)] }],
    errors: [],
  },
  {
    ...COMMON,
    path: '/readyz',
    id: 'readyz',
    summary: 'Whether a balancer should send requests',
    answers: [
      { status: 200, description: 'it should', contents: [json(Ready)] },
      { status: 503, description: 'the node is stopping', contents: [json(Stopping)] },
    ],
    errors: [],
  },
  {
    ...COMMON,
    path: '/openapi.json',
    id: 'openapi',
    summary: 'This document',
    answers: [
      {
        status: 200,
        description: 'OpenAPI 3.1',
        contents: [json({ type: 'object', description: 'OpenAPI 3.1' })],
        headers: ['ETag'],
      },
      { status: 304, description: 'the version of `If-None-Match`', headers: ['ETag'] },
    ],
    errors: ['INTERNAL'],
  },
  {
    ...COMMON,
    path: '/docs',
    id: 'docs',
    summary: 'This document as a page',
    answers: [
      {
        status: 200,
        description: 'the page',
        contents: [{ type: 'text/html', schema: { type: 'string' } }],
        headers: ['ETag'],
      },
      { status: 304, description: 'the version of `If-None-Match`', headers: ['ETag'] },
    ],
    errors: ['INTERNAL'],
  },
  {
    ...COMMON,
    path: '/docs/:file',
    id: 'docsFile',
    summary: 'What the page is made of',
    parameters: [{ name: 'file', in: 'path', required: true, schema: { type: 'string' } }],
    answers: [
      {
        status: 200,
        description: 'a script, a style sheet or an icon',
        contents: [BYTES],
        headers: ['ETag'],
      },
      { status: 304, description: 'the version of `If-None-Match`', headers: ['ETag'] },
    ],
    errors: ['NOT_FOUND', 'INTERNAL'],
  },
]
