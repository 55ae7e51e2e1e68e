-- The usage of a job that no worker has ended is recorded.
--
-- KEYS partition never
-- ARGV id
-- Reply 1

forget_abandoned(ARGV[1])
return 1
