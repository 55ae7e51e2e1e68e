-- Shows a job.
--
-- KEYS partition never
-- ARGV id
-- Reply the job as fields and values, empty when there is none or its time is over

return show_job(ARGV[1])
