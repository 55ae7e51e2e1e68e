import { Type } from 'typebox'
import { optional } from '../json-request.ts'

/** Of chat and text completions alike. */
export const STREAM_OPTIONS_FIELD = optional(
  Type.Object({ include_usage: optional(Type.Boolean(), 'a last event tells the tokens') }),
  'how a stream is written',
)
