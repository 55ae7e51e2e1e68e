-- Keeps a claim of a job, and what its worker would leave behind.
--
-- KEYS partition never
-- ARGV id fence lease_ms progress
-- Reply {held, cancel_requested}, each 1 | 0
--
-- An empty `progress`: the one before stays. A claim whose lease is over is in force until somebody takes the job.

local job = read_job(ARGV[1])
if not job or job.status ~= 'processing' or job.fence ~= tonumber(ARGV[2]) then return { 0, 0 } end
lease(job, ARGV[3])
if ARGV[4] ~= '' then redis.call('HSET', key('job', job.id), 'progress', ARGV[4]) end
return { 1, job.is_cancelled and 1 or 0 }
