import { UsageError } from './arguments.ts'
import type { CliContext } from './context.ts'

/** Options of commands that are clients of a node. */
export const NODE_OPTIONS = {
  url: { type: 'string' },
  key: { type: 'string' },
  language: { type: 'string' },
  field: { type: 'string', multiple: true },
} as const

export const NODE_HELP = `  --url URL            of the node (default: http://127.0.0.1 and PORT, else 8080)
  --key KEY            API key (default: LARKWAY_API_KEY)
  --language CODE      spoken language
  --field NAME=VALUE   any other field of POST /v1/transcription, such as diarization=true; may be repeated`

/** @throws UsageError */
export function nodeAddress({ env }: CliContext, given: string | undefined): URL {
  const text = given ?? `http://127.0.0.1:${env.PORT || 8080}`
  const address = URL.canParse(text) ? new URL(text) : null
  if (address !== null && /^(?:http|ws)s?:$/.test(address.protocol)) return address
  throw new UsageError('--url takes an address such as http://127.0.0.1:8080')
}

/** The fields of a transcription. @throws UsageError */
export function transcriptionFields(given: readonly string[], language: string | undefined): URLSearchParams {
  const fields = new URLSearchParams(language === undefined ? {} : { language })
  for (const field of given) {
    const [, name, value] = /^([a-z_]+)=(.*)$/s.exec(field) ?? []
    if (name === undefined || value === undefined) throw new UsageError('--field takes NAME=VALUE')
    fields.append(name, value)
  }
  return fields
}
