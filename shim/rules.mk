shim_out :=
