import { type ChatCall, isAnyObject } from '../schema/chat.ts'
import type { ModelLimits } from '../schema/facts.ts'
import type { EmbeddingsCall, ImageCall, VideoCall } from '../schema/generation.ts'
import { type Left, overLimit } from './consideration.ts'

/** Whether a model answers by the schema of a chat; null when it does, or when any JSON object will do. */
export function chatLimits(
  { json_schema: takes }: ModelLimits,
  { response_schema: schema }: Pick<ChatCall, 'response_schema'>,
): Left | null {
  if (takes !== false || schema === null || isAnyObject(schema)) return null
  return overLimit('response_schema', 'the model does not answer by a JSON schema')
}

/** Whether a model takes so many texts and makes vectors of that length; null when it does. */
export function embeddingsLimits(limits: ModelLimits, { input, dimensions }: EmbeddingsCall): Left | null {
  const { max_inputs, max_dimensions } = limits
  if (max_inputs !== undefined && input.length > max_inputs)
    return overLimit('input', `there are over the ${max_inputs} texts that the provider takes at once`)
  if (dimensions === null || max_dimensions === undefined || dimensions <= max_dimensions) return null
  return overLimit(
    'dimensions',
    max_dimensions === 0
      ? 'the model makes vectors of one length only'
      : `the model makes at most ${max_dimensions} dimensions`,
  )
}

/** Whether a model makes such pictures; null when it does. */
export function imageLimits(limits: ModelLimits, { n, size, output_format: format }: ImageCall): Left | null {
  const { max_images, image_sizes, image_formats } = limits
  if (max_images !== undefined && n > max_images)
    return overLimit('n', `the provider makes at most ${max_images} images at once`)
  if (size !== null && image_sizes !== undefined && !image_sizes.includes(size))
    return overLimit('size', `the provider makes ${image_sizes.join(', ')}, not ${size}`)
  if (format !== null && image_formats !== undefined && !image_formats.includes(format))
    return overLimit('output_format', `the provider makes ${image_formats.join(', ')}, not ${format}`)
  return null
}

/** Whether a model makes such a video; null when it does. */
export function videoLimits(
  limits: ModelLimits,
  { size, duration_seconds: seconds }: VideoCall,
): Left | null {
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
