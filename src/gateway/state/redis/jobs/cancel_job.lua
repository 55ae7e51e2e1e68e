-- Cancels a job that is queued, asks for it while it is processing, and leaves it alone when it has ended.
--
-- KEYS partition never
-- ARGV id workspace app
--      keep_transcription_ms keep_queue_ms keep_dead_ms
-- Reply the job as fields and values, empty when there is none or it is another's

local job = read_job(ARGV[1])
if not job or job.workspace ~= ARGV[2] or job.app ~= ARGV[3] then return {} end
if job.status == 'queued' then
  leave_queue(job)
  abandon(job, 'cancelled', retention(4))
elseif job.status == 'processing' then
  redis.call('HSET', key('job', job.id), 'cancel', '1')
  hint('changed', job.id)
end
return show_job(job.id)
