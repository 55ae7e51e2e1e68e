import { type TSchema, Type } from 'typebox'
import type { DoorOption, DoorOptions } from '../../src/gateway/api/door-options.ts'
import {
  CHAT_OPTIONS,
  COMPLETION_OPTIONS,
  IMAGE_OPTIONS,
  RESPONSE_OPTIONS,
  SPEECH_OPTIONS,
  TRANSCRIPTION_OPTIONS,
} from '../../src/gateway/api/openai/options.ts'
import { ENDPOINTS } from '../../src/gateway/api/table.ts'

/** Tables of options by the paths of their endpoints, behind `/openai/v1/`. */
const TABLES: Readonly<Record<string, DoorOptions>> = {
  'audio/transcriptions': TRANSCRIPTION_OPTIONS,
  'audio/translations': TRANSCRIPTION_OPTIONS,
  'audio/speech': SPEECH_OPTIONS,
  'chat/completions': CHAT_OPTIONS,
  responses: RESPONSE_OPTIONS,
  completions: COMPLETION_OPTIONS,
  embeddings: {},
  'images/generations': IMAGE_OPTIONS,
}

/** Every option of each endpoint of OpenAI's door: of its table, and the other fields of its body, which are kept. */
export function doorOptions(): ReadonlyMap<string, DoorOptions> {
  const found = new Map<string, DoorOptions>()
  for (const { method, path, body = [] } of ENDPOINTS) {
    const [, name] = /^\/openai\/v1\/(?!realtime)(.+)$/.exec(path) ?? []
    const schema = body.map((content) => content.schema).find((one) => Type.IsObject(one as TSchema))
    if (method !== 'POST' || name === undefined || schema === undefined) continue
    const table = TABLES[name]
    if (table === undefined) throw new Error(`${name} has no table of options`)
    const fields = Object.entries((schema as Type.TObject).properties)
    const kept = fields.filter(([field]) => !Object.hasOwn(table, field)).map(keptOption)
    found.set(name, { ...Object.fromEntries(kept), ...table })
  }
  return found
}

function keptOption([name, schema]: [string, TSchema]): [string, DoorOption] {
  const note = 'description' in schema ? String(schema.description) : ''
  return [name, { fate: 'kept', note }]
}

/** The table of all options in Markdown. An option that is the same at several endpoints has one row. */
export function openaiTable(): string {
  const rows = new Map<string, string[]>()
  for (const [path, options] of doorOptions())
    for (const [name, { fate, note }] of Object.entries(options)) {
      const row = `${fate} | ${note.replaceAll('|', '\\|')}`
      const key = `${name} | ${row}`
      rows.set(key, [...(rows.get(key) ?? []), `\`${path}\``])
    }
  const lines = [...rows].map(([key, paths]) => {
    const [name, ...rest] = key.split(' | ')
    return `| \`${name}\` | ${paths.join(', ')} | ${rest.join(' | ')} |`
  })
  return ['| Option | At | | |', '|---|---|---|---|', ...lines].join('\n')
}
