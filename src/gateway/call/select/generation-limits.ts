import { type ChatCall, isAnyObject } from '../../../contracts/chat.ts'
import type { ModelLimits } from '../../../contracts/facts.ts'
import type { EmbeddingsCall, ImageCall, VideoCall } from '../../../contracts/generation.ts'
import { type Exclusion, overLimit } from './verdict.ts'

/** Excludes a model that cannot follow the schema of a chat, unless any JSON object will do. */
export function chatExclusion(
  { json_schema: supported }: ModelLimits,
  { response_schema: schema }: Pick<ChatCall, 'response_schema'>,
): Exclusion | null {
  if (supported !== false || schema === null || isAnyObject(schema)) return null
  return overLimit('response_schema', 'the model cannot follow a JSON schema')
}

/** Excludes a model that does not take so many texts, or does not make vectors of that length. */
export function embeddingsExclusion(
  limits: ModelLimits,
  { input, dimensions }: EmbeddingsCall,
): Exclusion | null {
  const { max_inputs, max_dimensions } = limits
  if (max_inputs !== undefined && input.length > max_inputs)
    return overLimit('input', `the provider accepts at most ${max_inputs} texts at once`)
  if (dimensions === null || max_dimensions === undefined || dimensions <= max_dimensions) return null
  return overLimit(
    'dimensions',
    max_dimensions === 0
      ? 'the model makes vectors of one length only'
      : `the model makes at most ${max_dimensions} dimensions`,
  )
}

/** Excludes a model that does not make such pictures. */
export function imageExclusion(
  limits: ModelLimits,
  { n, size, output_format: format }: ImageCall,
): Exclusion | null {
  const { max_images, image_sizes, image_formats } = limits
  if (max_images !== undefined && n > max_images)
    return overLimit('n', `the provider makes at most ${max_images} images at once`)
  if (size !== null && image_sizes !== undefined && !image_sizes.includes(size))
    return overLimit('size', `the provider makes ${image_sizes.join(', ')}, not ${size}`)
  if (format !== null && image_formats !== undefined && !image_formats.includes(format))
    return overLimit('output_format', `the provider makes ${image_formats.join(', ')}, not ${format}`)
  return null
}

/** Excludes a model that does not make such a video. */
export function videoExclusion(
  limits: ModelLimits,
  { size, duration_seconds: seconds }: VideoCall,
): Exclusion | null {
  const { video_sizes, video_seconds } = limits
  if (size !== null && video_sizes !== undefined && !video_sizes.includes(size))
    return overLimit('size', `the provider makes ${video_sizes.join(', ')}, not ${size}`)
  if (seconds !== null && video_seconds !== undefined && !video_seconds.includes(seconds))
    return overLimit(
      'duration_seconds',
      `the provider makes ${video_seconds.join(', ')} seconds, not ${seconds}`,
    )
  return null
}
